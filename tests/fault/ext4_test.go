package fault

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"edged/tests/peer"
)

// ext4Shutdown is EXT4_IOC_SHUTDOWN: the file system stops at once, as when the
// power fails. With noLogFlush not even its journal is brought to the medium.
const (
	ext4Shutdown = 0x8004587d
	noLogFlush   = 2
)

// TestExt4PowerCut cuts the power of a real file system: an ext4 in a file,
// which is shut down while writers work, mounted again (it recovers from its
// journal), and looked at.
func TestExt4PowerCut(t *testing.T) {
	peer.Root(t, "mounting a disk") // alone: what other tests start would keep the mount busy
	img := filepath.Join(ram(t), "ext4.img")
	if err := os.WriteFile(img, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(img, 32<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(peer.Need(t, "mkfs.ext4", "e2fsprogs"), "-q", img).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v %s", err, out)
	}
	dir := t.TempDir()
	up := func() error {
		if out, err := exec.Command("mount", "-t", "ext4", "-o", "loop", img, dir).CombinedOutput(); err != nil {
			return fmt.Errorf("mount: %w: %s", err, out)
		}
		return nil
	}
	if err := up(); err != nil {
		peer.Missing(t, fmt.Sprint("a loop device: ", err))
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	rng := random(t)
	cut := func(r *reader, role, kind string, j job) (answer, string) {
		t.Helper()
		text, err := shutdown(t, role, j, dir, rng)
		if err != nil {
			t.Fatal(err)
		}
		release(t, dir)
		if err := up(); err != nil {
			t.Fatal(err)
		}
		return r.ask(question{Kind: kind, Path: j.Path, Acks: text, Round: j.Round, Writers: j.Writers, Snapshots: j.Round%5 == 0})
	}
	r := &reader{}
	defer r.close()
	j := job{Path: filepath.Join(dir, "edged", cutFile), Mode: "mixed", Writers: 4, Window: 20 * time.Millisecond, Snapshot: 50 * time.Millisecond}
	bad := 0
	for j.Round = range scale(30, 300) {
		j.Seed = rng.Uint64()
		a, death := cut(r, "writer", "board", j)
		if death != "" {
			t.Fatalf("the reader %s", death)
		}
		for _, p := range a.Problems {
			t.Errorf("cut %d: %s", j.Round, p)
		}
		if len(a.Problems) > 0 {
			bad++
		}
	}
	lost, controls := 0, 5
	for n := range controls {
		// A ruined file may make bbolt panic while it opens it, and then it is
		// kept open as long as the process lives: each has a reader of its own.
		own := &reader{limit: 5 * time.Second}
		a, death := cut(own, "bolt", "bolt", job{Path: filepath.Join(dir, fmt.Sprintf("control-%d", n)), Mode: "nosync", Writers: 1})
		own.close()
		if len(a.Problems) > 0 || death != "" {
			lost++
		}
	}
	t.Logf("%d power cuts of ext4: %d bad; control without syncing: %d of %d bad", j.Round+1, bad, lost, controls)
	if lost == 0 {
		t.Error("without syncing nothing was lost: this test sees nothing")
	}
}

// shutdown lets a writer work for a while, stops the file system beneath it,
// and gives what had been acknowledged.
func shutdown(t *testing.T, role string, j job, dir string, rng *rand.Rand) (string, error) {
	t.Helper()
	c, err := spawn(role, j, 0)
	if err != nil {
		return "", err
	}
	out := c.collect()
	wait(t, c, out, "the board", 20*time.Second, func() bool { return len(out.told(tellReady)) > 0 })
	time.Sleep(time.Duration(1+rng.IntN(40)) * time.Millisecond)
	f, err := os.Open(dir)
	if err != nil {
		return "", err
	}
	flags := uint32(noLogFlush)
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), ext4Shutdown, uintptr(unsafe.Pointer(&flags)))
	f.Close()
	if rng.IntN(2) == 0 { // let the writer see that its disk is gone
		time.Sleep(5 * time.Millisecond)
	}
	c.kill()
	<-out.end
	if errno != 0 {
		return "", fmt.Errorf("shutdown: %w", errno)
	}
	return out.text(), nil
}
