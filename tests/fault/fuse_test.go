package fault

import (
	"context"
	"io"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"edged/tests/peer"
)

// The disk as a file system. The test that serves it must not touch it: a
// process that maps a file which it serves itself waits for itself.

// ackFile takes the acknowledgements; it is no part of the disk.
const ackFile = "acks"

// mount shows a disk at a new folder and gives its path; unmount when all
// processes that use it have ended.
func mount(t *testing.T, d *disk) (dir string, unmount func()) {
	t.Helper()
	dir = t.TempDir()
	hour := time.Hour
	// The library opens /dev/fuse so that children inherit it. A child that
	// holds the end of its own disk can never be ended.
	syscall.ForkLock.RLock()
	server, err := fs.Mount(dir, &folder{d: d}, &fs.Options{
		EntryTimeout: &hour, AttrTimeout: &hour,
		MountOptions: fuse.MountOptions{
			DirectMountStrict: true, FsName: "edged-fault", Name: "fault", DisableXAttrs: true, MaxWrite: 1 << 17,
			AllowOther: true, Logger: log.New(io.Discard, "", 0),
		},
		Logger: log.New(io.Discard, "", 0),
	})
	if err == nil {
		err = closeOnExec("/dev/fuse")
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		peer.Missing(t, "a FUSE mount: "+err.Error())
	}
	return dir, func() {
		t.Helper()
		release(t, dir)
		server.Wait()
	}
}

// release unmounts a file system. The system lets go of the files of a killed
// process a little later.
func release(t *testing.T, dir string) {
	t.Helper()
	begin := time.Now()
	err := syscall.Unmount(dir, 0)
	for err == syscall.EBUSY && time.Since(begin) < 30*time.Second {
		time.Sleep(5 * time.Millisecond)
		err = syscall.Unmount(dir, 0)
	}
	if err != nil {
		t.Errorf("unmount %s: %v", dir, err)
		_ = syscall.Unmount(dir, syscall.MNT_FORCE|syscall.MNT_DETACH)
	}
}

// closeOnExec keeps the open files of a name from children.
func closeOnExec(name string) error {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && to == name {
			n, err := strconv.Atoi(fd.Name())
			if err != nil {
				return err
			}
			syscall.CloseOnExec(n)
		}
	}
	return nil
}

type folder struct {
	fs.Inode
	d *disk
}

type entry struct {
	fs.Inode
	d *disk
	n *node
}

var (
	_ fs.NodeLookuper  = (*folder)(nil)
	_ fs.NodeCreater   = (*folder)(nil)
	_ fs.NodeUnlinker  = (*folder)(nil)
	_ fs.NodeRenamer   = (*folder)(nil)
	_ fs.NodeLinker    = (*folder)(nil)
	_ fs.NodeFsyncer   = (*folder)(nil)
	_ fs.NodeOpener    = (*entry)(nil)
	_ fs.NodeReader    = (*entry)(nil)
	_ fs.NodeWriter    = (*entry)(nil)
	_ fs.NodeGetattrer = (*entry)(nil)
	_ fs.NodeSetattrer = (*entry)(nil)
	_ fs.NodeFsyncer   = (*entry)(nil)
)

func (f *folder) attach(ctx context.Context, n *node, out *fuse.EntryOut) *fs.Inode {
	e := &entry{d: f.d, n: n}
	e.attr(&out.Attr)
	return f.NewInode(ctx, e, fs.StableAttr{Mode: syscall.S_IFREG, Ino: n.id})
}

func (f *folder) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if name == ackFile {
		return f.attach(ctx, f.d.acks, out), 0
	}
	f.d.mu.Lock()
	n := f.d.seen[name]
	f.d.mu.Unlock()
	if n == nil {
		return nil, syscall.ENOENT
	}
	return f.attach(ctx, n, out), 0
}

func (f *folder) Create(ctx context.Context, name string, flags, _ uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	f.d.mu.Lock()
	n := f.d.node()
	f.d.mu.Unlock()
	if errno := f.d.change(func(m map[string]*node) { m[name] = n }); errno != 0 {
		return nil, nil, 0, errno
	}
	return f.attach(ctx, n, out), nil, fuse.FOPEN_KEEP_CACHE, 0
}

func (f *folder) Unlink(_ context.Context, name string) syscall.Errno {
	return f.d.change(func(m map[string]*node) { delete(m, name) })
}

func (f *folder) Rename(_ context.Context, name string, _ fs.InodeEmbedder, to string, _ uint32) syscall.Errno {
	return f.d.change(func(m map[string]*node) {
		if n := m[name]; n != nil {
			delete(m, name)
			m[to] = n
		}
	})
}

func (f *folder) Link(_ context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	e, ok := target.(*entry)
	if !ok {
		return nil, syscall.EINVAL
	}
	e.attr(&out.Attr)
	return e.EmbeddedInode(), f.d.change(func(m map[string]*node) { m[name] = e.n })
}

func (f *folder) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno { return f.d.syncFolder() }

func (e *entry) attr(out *fuse.Attr) {
	e.d.mu.Lock()
	defer e.d.mu.Unlock()
	out.Mode, out.Nlink, out.Blksize = syscall.S_IFREG|0o600, 1, 4096
	out.Size = uint64(len(e.n.cache))
	out.Blocks = (out.Size + sector - 1) / sector
}

func (e *entry) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if e.n == e.d.acks {
		return nil, fuse.FOPEN_DIRECT_IO, 0
	}
	e.d.mu.Lock()
	defer e.d.mu.Unlock()
	if e.d.ReadOnly && flags&syscall.O_ACCMODE != syscall.O_RDONLY {
		e.d.soon()
		return nil, 0, syscall.EROFS
	}
	return nil, fuse.FOPEN_KEEP_CACHE, 0
}

func (e *entry) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	e.d.mu.Lock()
	defer e.d.mu.Unlock()
	if off >= int64(len(e.n.cache)) {
		return fuse.ReadResultData(nil), 0
	}
	return fuse.ReadResultData(dest[:copy(dest, e.n.cache[off:])]), 0
}

func (e *entry) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	n, errno := e.d.write(e.n, data, off)
	return uint32(n), errno
}

func (e *entry) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	e.attr(&out.Attr)
	return 0
}

func (e *entry) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok && e.n != e.d.acks {
		if errno := e.d.truncate(e.n, int64(size)); errno != 0 {
			return errno
		}
	}
	e.attr(&out.Attr)
	return 0
}

func (e *entry) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno { return e.d.sync(e.n) }

// save writes an image to a folder.
func (img image) save(dir string) error {
	for name, text := range img.files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
