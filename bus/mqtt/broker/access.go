package broker

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A User may connect with a password, read what matches the Read filters and
// publish what matches the Write filters. No filter, no topic.
type User struct {
	Name string
	// Password is plain text, or a line of mosquitto_passwd:
	// $7$iterations$salt$hash (PBKDF2 with SHA-512).
	Password string
	Read     []string
	Write    []string
}

// Passwords reads a file of name:password lines as mosquitto_passwd writes
// them; plain passwords are taken too. The file must be readable by its owner
// only.
func Passwords(path string) (map[string]string, error) {
	if err := private(path); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("broker: passwords: %w", err)
	}
	m := map[string]string{}
	for n, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, pass, ok := strings.Cut(line, ":")
		if !ok || name == "" || pass == "" {
			return nil, fmt.Errorf("broker: passwords: %s:%d: want name:password", path, n+1)
		}
		m[name] = pass
	}
	return m, nil
}

// private refuses a file of secrets that others may read.
func private(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	if p := st.Mode().Perm(); p&others(path) != 0 {
		return &fs.PathError{Op: "broker: read", Path: path,
			Err: fmt.Errorf("others may read it (mode %04o): chmod 600 it", p)}
	}
	return nil
}

// others are the permissions that only the owner may have. systemd makes its
// credentials readable by a group, in a folder that nobody else gets into.
func others(path string) fs.FileMode {
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" && filepath.Dir(path) == filepath.Clean(dir) {
		return 0o037
	}
	return 0o077
}

// account is a user in the form that is checked on every packet.
type account struct {
	sum         [32]byte // of a plain password
	salt, hash  []byte   // of a hashed one
	iterations  int
	read, write []string
}

func accounts(users []User) (map[string]*account, error) {
	m := map[string]*account{}
	for _, u := range users {
		switch {
		case u.Name == "" || !utf8.ValidString(u.Name):
			return nil, fmt.Errorf("broker: mqtt.users: %q is not a name", u.Name)
		case u.Password == "":
			return nil, fmt.Errorf("broker: mqtt.users: %s has no password", u.Name)
		case m[u.Name] != nil:
			return nil, fmt.Errorf("broker: mqtt.users: %s is there twice", u.Name)
		}
		a := &account{read: u.Read, write: u.Write}
		for _, f := range append(append([]string{}, u.Read...), u.Write...) {
			if !filterOK(f) {
				return nil, fmt.Errorf("broker: mqtt.users: %s: %q is not a topic filter", u.Name, f)
			}
		}
		if err := a.password(u.Password); err != nil {
			return nil, fmt.Errorf("broker: mqtt.users: %s: %w", u.Name, err)
		}
		m[u.Name] = a
	}
	return m, nil
}

func (a *account) password(p string) error {
	if !strings.HasPrefix(p, "$") {
		a.sum = sha256.Sum256([]byte(p))
		return nil
	}
	part := strings.Split(p, "$")
	if len(part) != 5 || part[1] != "7" {
		return fmt.Errorf("a password that begins with $ must be $7$iterations$salt$hash, as mosquitto_passwd writes it")
	}
	var err error
	if a.iterations, err = strconv.Atoi(part[2]); err != nil || a.iterations < 1 || a.iterations > 1_000_000 {
		return fmt.Errorf("password hash: %q iterations", part[2])
	}
	if a.salt, err = base64.StdEncoding.DecodeString(part[3]); err != nil {
		return fmt.Errorf("password hash: salt: %w", err)
	}
	if a.hash, err = base64.StdEncoding.DecodeString(part[4]); err != nil || len(a.hash) == 0 {
		return fmt.Errorf("password hash: not base64")
	}
	return nil
}

// authentic compares in constant time; an unknown name takes as long as a
// known one with a plain password.
func authentic(users map[string]*account, name string, pass []byte) bool {
	a, known := users[name]
	if !known {
		a = &account{}
	}
	if a.hash != nil {
		got, err := pbkdf2.Key(sha512.New, string(pass), a.salt, a.iterations, len(a.hash))
		return err == nil && subtle.ConstantTimeCompare(got, a.hash) == 1
	}
	sum := sha256.Sum256(pass)
	return subtle.ConstantTimeCompare(sum[:], a.sum[:]) == 1 && known
}

// may reports whether one of the account's filters covers a topic or a filter.
func (a *account) may(topic string, write bool) bool {
	allowed := a.read
	if write {
		allowed = a.write
	}
	if rest, ok := strings.CutPrefix(topic, "$share/"); ok {
		_, topic, _ = strings.Cut(rest, "/")
	}
	for _, f := range allowed {
		if covers(f, topic) {
			return true
		}
	}
	return false
}

// covers reports whether everything that matches sub matches filter too. A
// topic name is a filter that matches itself.
func covers(filter, sub string) bool {
	if strings.HasPrefix(sub, "$") && filter != "" && (filter[0] == '+' || filter[0] == '#') {
		return false // MQTT 3.1.1 section 4.7.2
	}
	for {
		fl, frest, fmore := strings.Cut(filter, "/")
		if fl == "#" {
			return true
		}
		sl, srest, smore := strings.Cut(sub, "/")
		if sl == "#" || fl != "+" && fl != sl {
			return false
		}
		if !fmore || !smore {
			return fmore == smore || fmore && frest == "#"
		}
		filter, sub = frest, srest
	}
}
