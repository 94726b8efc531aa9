# The reader goes away: the end is quiet.
printf '\0\0\10\3\0\0\100\0\0\0\0\100\0\0\0\100' >big
head -c 67108864 /dev/zero >>big
kd-prep -q --labels none big | head -c 1 >/dev/null
echo "${PIPESTATUS[0]}"
