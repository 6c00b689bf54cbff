module bench

go 1.26

require (
	edged v0.0.0
	github.com/eclipse/paho.mqtt.golang v1.5.1
	github.com/yuin/gopher-lua v1.1.1
)

require (
	github.com/gorilla/websocket v1.5.3 // indirect
	golang.org/x/net v0.44.0 // indirect
	golang.org/x/sync v0.20.0 // indirect
)

replace edged => ../..
