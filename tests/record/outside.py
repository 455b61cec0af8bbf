import os, socket, subprocess, multiprocessing
s=socket.socket(); s.settimeout(0.2)
try: s.connect(("192.0.2.1", 80)) # in a network of its own, which leads nowhere
except OSError: pass
os.makedirs("sockets", exist_ok=True)
u=socket.socket(socket.AF_UNIX); u.bind("sockets/a"); u.listen(); v=socket.socket(socket.AF_UNIX); v.connect("sockets/a"); v.send(b"x"); print(os.listdir("sockets"), flush=True)
subprocess.run(["./st"]); subprocess.run(["./st"], env={}); os.system("./st"); subprocess.run("echo shell > out.txt; cat out.txt", shell=True)
with multiprocessing.Pool(2) as p: print(p.map(abs, [-1, -2]))
with multiprocessing.Manager() as m: d = m.dict(); d[1] = 2; print(d)
