# kill -9 at random moments, each followed by a resume, ends in the unbroken run's bytes. timeout: 300
exec bash $ROOT/tests/slow/kill50.sh 5
