X=a
X=$X$X$X$X
X=$X$X$X$X
A=("${X[@]}" "$X")
if [[ $X == a && ! -f b ]]; then A+=(1); else A=(); fi
python t.py ${A[@]} ${#A[@]} ${X:-${Y:=z}} $((1+2*(3-4)/5%6))