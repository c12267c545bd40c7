# Each name is cut by a process of its own; mended, one process cuts all names.
names=$(seq 40)
if [ "$1" = mended ]; then
  for name in $names; do echo "a/b/$name"; done | cut -d/ -f3 > names.txt
else
  for name in $names; do
    echo "a/b/$name" | cut -d/ -f3 > names.txt
  done
fi
