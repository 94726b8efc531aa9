# A missing source, an empty folder, or one without pictures: exit 2, and nothing on standard output.
mkdir -p empty/inside text
echo hello >text/a.txt
kd-prep nowhere; echo "exit $?"
kd-prep empty; echo "exit $?"
kd-prep text; echo "exit $?"
kd-prep $GOLDEN/prep/images/odd_32x33.png nowhere; echo "exit $?"
kd-prep text -o out.st; echo "exit $?"
kd-prep; echo "exit $?"
ls
