# What is not an image stream is refused; wrong options are exit 2.
echo hello >text
kd-grid text; echo "exit $?"
kd-grid nowhere; echo "exit $?"
kd-grid </dev/null; echo "exit $?"
kd-prep -q $GOLDEN/prep/images/odd_32x33.png >one
head -c 2000 one | kd-grid; echo "exit $?"
for bad in --cols=0 --rows=0 --pad=-1 --scale=0 --limit=0 --quantize=floor; do kd-grid one $bad; echo "exit $?"; done
kd-grid one -o nowhere/g.png; echo "exit $?"
kd-grid one two; echo "exit $?"
ls
