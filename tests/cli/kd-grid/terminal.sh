# Binary output never goes to a terminal; nor is input waited for before saying so.
kd-prep -q $GOLDEN/prep/images/odd_32x33.png >one
script -qec 'kd-grid one; echo "exit $?"; kd-prep -q one' /dev/null </dev/null | tr -d '\r'
