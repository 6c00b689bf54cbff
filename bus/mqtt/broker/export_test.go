package broker

import "net"

// On makes a broker that lets its clients in through l, so that a test may own
// the clock.
func On(l net.Listener, o Options) (*Broker, error) {
	o = o.defaults()
	users, err := accounts(o.Users)
	if err != nil {
		return nil, err
	}
	return &Broker{opt: o, users: users, sessions: map[string]*session{}, accept: newAcceptor(l, nil, o.Clients, o.Log)}, nil
}
