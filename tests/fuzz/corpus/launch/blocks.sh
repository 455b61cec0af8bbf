cat <<EOF
$(x)
EOF
f() { case; }
for a in b; do
:
done >x 2>&1 | y &
(cd x && bash -c "python t.py")