import os, pathlib, shutil, sys, tempfile
os.makedirs("ck", exist_ok=True)
for i in range(3):
    with open("ck/m.tmp", "wb") as f: f.write(b"%d" % i * 1000)
    os.replace("ck/m.tmp", "ck/m.bin")
    with open("log.txt", "a") as f: f.write("line %d\n" % i)
    assert open("ck/m.bin", "rb").read() == b"%d" % i * 1000
    pathlib.Path("ck/p%d" % i).write_text("p"); pathlib.Path("ck/p0").touch()
assert sorted(os.listdir("ck")) == ["m.bin", "old", "p0", "p1", "p2"], os.listdir("ck")
shutil.rmtree("ck/old"); assert not os.path.exists("ck/old"); assert sorted(os.listdir("ck")) == ["m.bin", "p0", "p1", "p2"]
os.mkdir("ck/old"); assert os.listdir("ck/old") == []
shutil.copy("ck/m.bin", "ck/c.bin"); shutil.copytree("ck", "ck2"); shutil.move("ck2", "ck3"); assert sorted(os.listdir("ck3")) == ["c.bin", "m.bin", "old", "p0", "p1", "p2"]
os.rename("dir", "dir2"); assert os.listdir("dir2") == ["deep"] and open("dir2/deep/x").read() == "x\n"; assert not os.path.exists("dir")
os.symlink("ck/m.bin", "link"); assert open("link").read()[0] == "2"; open("link", "w").write("via"); assert open("ck/m.bin").read() == "via"
os.truncate("keep", 3); assert open("keep").read() == "kee"; os.unlink("gone"); assert not os.path.exists("gone")
os.chmod("keep", 0o600); assert os.stat("keep").st_mode & 0o777 == 0o600
fd, name = tempfile.mkstemp(dir="."); os.write(fd, b"t"); os.close(fd); os.replace(name, "final"); assert open("final").read() == "t"
d = tempfile.mkdtemp(dir="."); os.rmdir(d)
os.chdir("ck3"); assert os.getcwd().endswith("/ck3"), os.getcwd(); open("rel", "w").write("r"); assert os.path.exists("../ck3/rel"); assert os.path.realpath("rel").endswith("/ck3/rel"); os.chdir(".."); assert open("keep").read() == "kee"
os.link("keep", "hard"); assert open("hard").read() == "kee"
with open("rw", "r+") as f: f.seek(1); f.write("X")
assert open("rw").read() == "aXc\n"
assert os.system("cp rw rw2 && mv rw2 rw3 && rm rw && echo more >> log.txt && cat rw3 && ls && rm -r dir2 ck3 && test ! -e ck3") == 0
try: os.rmdir("ck"); assert False
except OSError as e: assert e.errno == 39
try: os.mkdir("ck"); assert False
except FileExistsError: pass
with os.scandir(".") as it: print(sorted(e.name for e in it if e.is_file()))
