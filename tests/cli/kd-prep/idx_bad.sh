# Each way an IDX file can be wrong has its sentence, and the file gives no image.
head='\0\0\10\3\0\0\0\3\0\0\0\2\0\0\0\2'
try() { kd-prep --report r "$@" >out; echo "exit $? $(wc -c <out)"; }
printf "$head"'aaaabbbbcc' >short; try short
printf "$head"'aaaabbbbccccd' >long; try long
printf "$head"'aaaabbbbcc' | gzip >short.gz; try short.gz
printf "$head"'aaaabbbbccccd' | gzip >long.gz; try long.gz
printf "$head"'aaaabbbbcccc' | gzip >whole.gz
head -c -9 whole.gz >cut.gz; try cut.gz
{ head -c -8 whole.gz; printf 12345678; } >sum.gz; try sum.gz
{ cat whole.gz; echo more; } >tail.gz; try tail.gz
printf '\0\0\10\3\0\0\0\3' >head; try head
printf '\0\0\15\3\0\0\0\1\0\0\0\1\0\0\0\1aaaa' >floats; try floats
printf '\0\0\10\4\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\1a' >four; try four
printf '\0\0\10\3\0\0\0\0\0\0\0\2\0\0\0\2' >none; try none
printf '\0\0\10\3\377\377\377\377\377\377\377\377\377\377\377\377aaaa' >huge; try huge
printf "$head"'aaaabbbbcccc' >t-images-idx3
printf '\0\0\10\1\0\0\0\2\7\1' >t-labels-idx1; try t-images-idx3
printf '\0\0\10\1\0\0\0\3\7\1' >t-labels-idx1; try t-images-idx3
printf 'hello' >t-labels-idx1; try t-images-idx3
printf '\0\0\10\1\0\0\0\3\7\1\2' | gzip | head -c 20 >t-labels-idx1; try t-images-idx3
# On a pipe the damage is met after the first image: an error, not a skipped file.
cat short.gz | { kd-prep - >out; echo "exit $?"; }
