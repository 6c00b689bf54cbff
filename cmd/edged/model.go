package main

import (
	"context"
	"io"
	"os"

	"edged/agent/llm"
	"edged/background"
	"edged/blackboard"
	"edged/bus"
	"edged/cmd/edged/internal/config"
	"edged/hw"
	"edged/starlark/lib"
)

// A robot in memory, for verbs that look at a folder.

// model is a robot that exists in memory only, for verbs that look at a folder.
// Its files are in a folder that goes with it, and secrets are not read.
type model struct {
	bus     *bus.Bus
	board   *blackboard.Board
	rig     *hw.Rig
	devices devices
	host    *lib.Host
	root    *os.Root // the folder of the scripts
	temp    string
}

func openModel(cfg *config.Config) (m *model, err error) {
	m = &model{bus: bus.New(bus.Options{}), host: &lib.Host{Name: cfg.Name, Env: lookup(cfg.Env), Limits: limitsOf(cfg)}}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	if m.root, err = os.OpenRoot(cfg.Dir()); err != nil {
		return m, err
	}
	if m.board, err = blackboard.Open(m.bus, blackboard.Options{}); err != nil {
		return m, err
	}
	if m.rig, err = hw.NewRig(m.bus, hw.Options{}); err != nil {
		return m, err
	}
	if m.devices, err = openDevices(m.rig, cfg, true); err != nil {
		return m, err
	}
	if m.temp, err = os.MkdirTemp("", "edged-"); err != nil {
		return m, err
	}
	if m.host.Data, err = os.OpenRoot(m.temp); err != nil {
		return m, err
	}
	m.host.Bus, m.host.Board, m.host.Rig, m.host.World = m.bus, m.board, m.rig, m.devices.world
	m.host.Print = io.Discard
	m.host.Audit = llm.NewAudit(io.Discard, nil)
	m.host.Secret = noSecrets(cfg)
	return m, nil
}

// noSecrets knows the names of the secrets and reads none.
func noSecrets(cfg *config.Config) func(string) (string, error) {
	return func(name string) (string, error) {
		if _, ok := cfg.Secrets[name]; !ok {
			return "", lib.ErrNoSecret
		}
		return "not read", nil
	}
}

// children are the services of the simulated devices.
func (m *model) children() (list []background.Child) {
	for _, s := range m.devices.services {
		list = append(list, background.Child{Name: s.name, Service: s.service})
	}
	for _, s := range m.rig.Services() {
		list = append(list, background.Child{Name: s.Name, Service: s})
	}
	return list
}

// close takes everything away; nothing of it is worth an error.
func (m *model) close() {
	if m.rig != nil {
		m.rig.Close()
	}
	if m.board != nil {
		_ = m.board.Close()
	}
	_ = m.bus.Close(context.Background())
	if m.root != nil {
		_ = m.root.Close()
	}
	if m.host.Data != nil {
		_ = m.host.Data.Close()
	}
	if m.temp != "" {
		_ = os.RemoveAll(m.temp)
	}
}
