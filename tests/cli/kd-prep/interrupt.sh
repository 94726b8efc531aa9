# A signal ends the work: its exit code, and nothing left behind.
mkfifo pipe
kd-prep pipe -o out.st 2>/dev/null &
sleep 0.3
kill -TERM $!
wait $! 2>/dev/null
echo "exit $?"
ls
