package fault

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
)

// The control: the database beneath the board, used plainly and without
// syncing. If the disk of these tests does not ruin it, the tests see nothing.

const controlKeys = 50

// runBolt writes numbers to fifty keys in turn and acknowledges each, until
// standard input ends.
func runBolt() int {
	var j job
	err := json.Unmarshal([]byte(os.Getenv(envConfig)), &j)
	if err == nil {
		err = writeBolt(j)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func writeBolt(j job) error {
	acks := os.Stdout
	if j.Acks != "" {
		var err error
		if acks, err = os.OpenFile(j.Acks, os.O_WRONLY|os.O_APPEND, 0); err != nil {
			return err
		}
		defer acks.Close()
	}
	db, err := bbolt.Open(j.Path, 0o600, &bbolt.Options{NoSync: j.Mode == "nosync", PageSize: 4096})
	if err != nil {
		return err
	}
	// bbolt does not sync the folder of a new file.
	folder, err := os.Open(filepath.Dir(j.Path))
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := folder.Sync(); err != nil {
		return err
	}
	stop := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, bufio.NewReader(os.Stdin))
		close(stop)
	}()
	fmt.Println(tellReady)
	for n := uint64(1); ; n++ {
		select {
		case <-stop:
			fmt.Println(tellDone)
			return db.Close()
		default:
		}
		if err := db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("b"))
			if err != nil {
				return err
			}
			value := append(binary.BigEndian.AppendUint64(nil, n), padding(0, int64(n))...)
			return b.Put(binary.BigEndian.AppendUint64(nil, n%controlKeys), value)
		}); err != nil {
			return err
		}
		fmt.Fprintf(acks, "%s %d 0 %d %d\n", ackSync, j.Round, n, time.Now().UnixNano())
	}
}

// bolt checks what the control left.
func (a *answer) bolt(q *question) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			a.problem("panic: %v", p)
		}
	}()
	db, err := bbolt.Open(q.Path, 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		a.problem("does not open: %v", err)
		return
	}
	defer db.Close()
	_ = db.View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			a.problem("check: %v", err)
		}
		want := parseAcks(q.Acks, q.Round).high[ackSync][0]
		b := tx.Bucket([]byte("b"))
		if b == nil {
			if want > 0 {
				a.problem("LOST: %d was acknowledged, nothing is there", want)
			}
			return nil
		}
		var last uint64
		_ = b.ForEach(func(_, v []byte) error { last = max(last, binary.BigEndian.Uint64(v)); return nil })
		if last < uint64(want) {
			a.problem("LOST: %d was acknowledged, the newest is %d", want, last)
		}
		return nil
	})
}
