# A stream of three images with labels; twice; cut short; damaged; of a kind to come.
base64 -d >images.st <<'B'
+AAAAAAAAAB7Il9fbWV0YWRhdGFfXyI6eyJrZCI6ImltYWdlcy8xIiwia2RfcGFydCI6IjAiLCJr
ZF9sYXN0IjoiMSIsImtkX3h4aDMiOiI2OTFhMTY2NjY2N2E3NWJjIn0sImltYWdlIjp7ImR0eXBl
IjoiVTgiLCJzaGFwZSI6WzMsMSwyLDFdLCJkYXRhX29mZnNldHMiOlswLDZdfSwibGFiZWwiOnsi
ZHR5cGUiOiJJNjQiLCJzaGFwZSI6WzNdLCJkYXRhX29mZnNldHMiOls2LDMwXX19ICAgICAgICAg
ICAgICAgICAgICAgICAgICAgICAgICAgICAgIAD/gEABAgMAAAAAAAAABwAAAAAAAAABAAAAAAAA
AA==
B
kd-info --stats images.st
cat images.st images.st | kd-info --json -
kd-info --config images.st; echo "exit $?"
head -c 262 images.st | kd-info -; echo "exit $?"
sed 's/"kd_last"/"kd_lost"/' images.st | kd-info -; echo "exit $?"
sed 's/"kd_last"/"no_last"/; s/kd_xxh3/no_xxh3/' images.st | kd-info -; echo "exit $?"
sed 's|images/1|images/9|; s/kd_xxh3/no_xxh3/' images.st | kd-info -; echo "exit $?"
