package blackboard

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"go.etcd.io/bbolt"
)

// Evict takes the records of a room out of a board's file that is not open,
// without reading the rest of it into memory: for a room that has grown so
// large that the board can't be opened any more. keep is given every record
// before any is removed; its error leaves the file as it is. No file is no
// record.
func Evict(path, room string, keep func(name string, v []byte) error) (n int, err error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	err = guard(func() error {
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, FreelistType: bbolt.FreelistMapType})
		if err != nil {
			return err
		}
		err = db.Update(func(tx *bbolt.Tx) error {
			name := []byte(recordPrefix + room)
			b := tx.Bucket(name)
			if b == nil {
				return nil
			}
			err := b.ForEach(func(k, v []byte) error {
				body, err := unseal(k, v, formatBytes)
				if err != nil {
					return nil // a damaged one says nothing any more
				}
				n++
				return keep(string(k), body)
			})
			if err != nil {
				return err
			}
			return tx.DeleteBucket(name)
		})
		return errors.Join(err, db.Close())
	})
	if err != nil {
		return 0, fmt.Errorf("blackboard: evict %s: %w", room, err)
	}
	return n, nil
}
