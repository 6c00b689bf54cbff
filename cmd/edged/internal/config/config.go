// Package config says where a robot is: ports, files, limits, devices. What it
// does is in its scripts.
//
// Its one rule: every value has one known source. A flag beats the environment
// (EDGED_*), which beats edged.toml, which beats the default; [Config.Values]
// tells which it was.
//
//	c, err := config.Load("guard", os.Environ(), map[string]string{"mqtt.listen": "127.0.0.1:2883"})
//	fmt.Println(c.MQTT.Listen, c.Source("mqtt.listen")) // 127.0.0.1:2883 flag
//
// There is no second store, and nothing writes edged.toml but its owner.
package config

import (
	"os"
	"path/filepath"
	"strings"
)

// File is the name of a robot's settings in its folder.
const File = "edged.toml"

// A Config is the settings of one robot, complete and checked. It is read only
// once it has been loaded.
type Config struct {
	Name string `toml:"name" doc:"name of the robot; the folder's name if empty"`
	Data string `toml:"data" doc:"folder of the blackboard, the trace and the socket; .edged inside the robot's folder if empty"`
	Log  string `toml:"log" doc:"what is logged to standard error: debug, info, warn, error or off"`

	OnGiveUp string `toml:"on_give_up" doc:"when a supervision tree has given up and the robot is at rest: exit, or degrade to go on without what was in it, stopped"`

	Script  Script            `toml:"script"`
	Allow   Allow             `toml:"allow"`
	Env     map[string]string `toml:"env" doc:"values that scripts read with env(NAME)"`
	Secrets map[string]string `toml:"secrets" doc:"files that hold what scripts read with secret(NAME)"`

	Bus     Bus                       `toml:"bus"`
	Board   Board                     `toml:"board"`
	MQTT    MQTT                      `toml:"mqtt"`
	Page    Page                      `toml:"page"`
	Stop    Stop                      `toml:"stop"`
	Trace   Trace                     `toml:"trace"`
	Models  Models                    `toml:"models"`
	Memory  Memory                    `toml:"memory"`
	Devices map[string]map[string]any `toml:"devices" doc:"devices by name; driver says which kind, the rest is the driver's"`

	dir     string
	sources map[string]string
}

// Script limits what one call of a script may take.
type Script struct {
	Time     Duration `toml:"time" doc:"computing time of one call"`
	Steps    int64    `toml:"steps" doc:"interpreter steps of one call"`
	Depth    int64    `toml:"depth" doc:"how deep calls may nest"`
	Isolated bool     `toml:"isolated" doc:"run the scripts in a child process with bounded memory, no files and no network"`
	Memory   Size     `toml:"memory" doc:"data segment of an isolated child"`
	Grace    Duration `toml:"grace" doc:"how long handlers of the old version may go on after a reload"`
}

// Allow says what the folder's scripts may use beyond computing and their own
// topics and keys. Everything is a list of patterns.
type Allow struct {
	All bool `toml:"all" doc:"scripts may use everything"`
	Bus struct {
		Pub []string `toml:"pub" doc:"topics that scripts may publish to"`
		Sub []string `toml:"sub" doc:"topics that scripts may hear"`
	} `toml:"bus"`
	BB []string `toml:"bb" doc:"keys of the blackboard that scripts may use"`
	HW struct {
		Read  []string `toml:"read" doc:"devices that scripts may read"`
		Write []string `toml:"write" doc:"devices that scripts may command"`
	} `toml:"hw"`
	LLM  []string `toml:"llm" doc:"models that scripts may ask"`
	HTTP []string `toml:"http" doc:"hosts that scripts may ask"`
	Exec []string `toml:"exec" doc:"programs that scripts may run"`
}

// Board sets up the blackboard.
type Board struct {
	Window      Duration `toml:"window" doc:"how long a change of mode group may wait for the disk"`
	MaxValue    Size     `toml:"max_value" doc:"largest value"`
	MaxSize     Size     `toml:"max_size" doc:"largest file, 0 = no limit"`
	MaxRequests int64    `toml:"max_requests" doc:"requests that may wait for an answer"`
}

// Bus bounds what is kept of events.
type Bus struct {
	Retained      int64 `toml:"retained" doc:"topics whose last event is kept for those who come later"`
	RetainedBytes Size  `toml:"retained_bytes" doc:"bytes that they may take"`
}

// MQTT sets up the broker inside, or the bridge to one outside if URL is set.
type MQTT struct {
	Listen  string `toml:"listen" doc:"where the broker inside listens; off = no broker"`
	URL     string `toml:"url" doc:"an outside broker instead: tcp, ssl, ws or wss://host:port"`
	Prefix  string `toml:"prefix" doc:"of the status topic, edged/<name> if empty"`
	Clients int64  `toml:"clients" doc:"connections the broker inside takes"`

	Sessions int64 `toml:"sessions" doc:"clients that are away whose subscriptions and messages it keeps"`
	Filters  int64 `toml:"filters" doc:"subscriptions that one client may have there"`
	Queue    int64 `toml:"queue" doc:"messages that may wait there for one client"`
	Memory   Size  `toml:"memory" doc:"bytes that it keeps for all clients: messages, subscriptions, wills"`

	ClientID     string   `toml:"client_id" doc:"stable and unique at the outside broker; edged-<name> if empty"`
	Username     string   `toml:"username" doc:"at the outside broker"`
	PasswordFile string   `toml:"password_file" doc:"file with the password, readable by its owner only"`
	Insecure     bool     `toml:"insecure" doc:"allow a plain connection to another machine"`
	MaxPacket    Size     `toml:"max_packet" doc:"largest packet, either way"`
	KeepAlive    Duration `toml:"keep_alive" doc:"silence after which the outside broker is asked whether it is there"`

	Settle Duration `toml:"settle" doc:"pause after which an outside broker has sent what it kept while the robot was away; for those that send it slowly"`

	InPrefix  string  `toml:"in_prefix" doc:"in front of the bus topic of everything that comes in"`
	OutPrefix string  `toml:"out_prefix" doc:"in front of the MQTT topic of everything that goes out"`
	Subscribe []Route `toml:"subscribe" doc:"what comes in; everything but the runtime's own topics if there is no list"`
	Publish   []Route `toml:"publish" doc:"what goes out; everything but messages between agents if there is no list"`

	Outbox    Outbox   `toml:"outbox"`
	Confirm   bool     `toml:"confirm" doc:"people may allow by MQTT what agents ask for, and answer questions"`
	Discovery bool     `toml:"discovery" doc:"tell Home Assistant what the robot has"`
	Entities  []Entity `toml:"entities" doc:"what else it is told, or in which words"`
	Users     []User   `toml:"users" doc:"who may connect to the broker inside; needed beyond loopback"`
	TLS       TLS      `toml:"tls"`
}

// Route maps the topics of a filter in one direction.
type Route struct {
	Filter        string   `toml:"filter"`
	QoS           int64    `toml:"qos"`
	Codec         string   `toml:"codec"`
	Strip         string   `toml:"strip"`
	Prefix        string   `toml:"prefix"`
	Retain        bool     `toml:"retain"`
	Relay         bool     `toml:"relay"`
	ActOnRetained bool     `toml:"act_on_retained"`
	ActOnQueued   bool     `toml:"act_on_queued"`
	MaxAge        Duration `toml:"max_age"`
	Time          string   `toml:"time"`
	Durable       bool     `toml:"durable"`
}

// Outbox bounds what waits for an outside broker.
type Outbox struct {
	Limit    int64  `toml:"limit" doc:"messages that may wait for the outside broker"`
	Bytes    Size   `toml:"bytes" doc:"bytes that may wait for it"`
	Overflow string `toml:"overflow" doc:"what a full outbox gives up: drop_oldest or drop_new"`
}

// Entity is one thing in Home Assistant. One that has the name of a device
// changes how that one is shown.
type Entity struct {
	Kind     string `toml:"kind"`
	ID       string `toml:"id"`
	Name     string `toml:"name"`
	State    string `toml:"state"`
	Command  string `toml:"command"`
	Unit     string `toml:"unit"`
	Class    string `toml:"class"`
	Template string `toml:"template"`
	Icon     string `toml:"icon"`
	On       string `toml:"on"`
	Off      string `toml:"off"`
	Press    string `toml:"press"`
}

// User may connect to the broker inside.
type User struct {
	Name         string   `toml:"name"`
	PasswordFile string   `toml:"password_file"`
	Read         []string `toml:"read"`
	Write        []string `toml:"write"`
}

// TLS names certificate files, for the broker inside or for the bridge.
type TLS struct {
	Cert     string `toml:"cert" doc:"certificate chain, PEM"`
	Key      string `toml:"key" doc:"its key, readable by its owner only"`
	ClientCA string `toml:"client_ca" doc:"who signs the certificates that clients of the broker inside must show"`
	CA       string `toml:"ca" doc:"who signs the outside broker's certificate; the system's list if empty"`
	Name     string `toml:"name" doc:"the outside broker's name in its certificate, if it isn't the host in mqtt.url"`
}

// Page sets up the operator's page.
type Page struct {
	Listen string   `toml:"listen" doc:"where the operator's page is; off = no page"`
	Names  []string `toml:"names" doc:"host names the page is reached by, beside localhost and its address"`
	Cert   string   `toml:"cert" doc:"certificate chain of the page, PEM; needed beyond loopback"`
	Key    string   `toml:"key" doc:"its key, readable by its owner only"`
}

// Stop sets up the stop path.
type Stop struct {
	Hold      Duration `toml:"hold" doc:"lifetime of a command that names none, of what moves; 5s at most"`
	Languages []string `toml:"languages" doc:"languages whose words stop the robot: en, de, fr, …"`
	Words     []string `toml:"words" doc:"more words and phrases that stop it"`
	Except    []string `toml:"except" doc:"phrases around a stop word that do not: stop the music"`
}

// Models says where models are, and how their servers are asked.
type Models struct {
	Ollama    string            `toml:"ollama" doc:"address of the Ollama server; OLLAMA_HOST if empty, else this machine's"`
	Default   string            `toml:"default" doc:"model that 'edged model show' and 'bench' are about when none is named"`
	Agent     string            `toml:"agent" doc:"agent that 'edged ask' talks to; the only one with a model if empty"`
	Context   int64             `toml:"num_ctx" doc:"tokens that a model of Ollama keeps in mind; less saves memory"`
	Predict   int64             `toml:"num_predict" doc:"longest answer in tokens, where the agent says nothing"`
	Threads   int64             `toml:"num_thread" doc:"threads of Ollama; 0 = cores - 1 if it is on this machine, else its own choice"`
	KeepAlive Duration          `toml:"keep_alive" doc:"how long Ollama keeps a model in memory after a request; 0s = for ever"`
	Warm      bool              `toml:"warm" doc:"load the models that scripts name when the robot starts"`
	InFlight  int64             `toml:"in_flight" doc:"requests that a server answers at a time"`
	Queue     int64             `toml:"queue" doc:"requests that may wait for a server"`
	Keys      map[string]string `toml:"keys" doc:"files with the keys of servers, by host or host:port"`
	Trust     []string          `toml:"trust" doc:"origins whose words are orders, beside people and scripts: mqtt"`
	Tainted   bool              `toml:"tainted_writes" doc:"let words of others lead to tools that act"`
}

// Trace bounds the record of what happened.
type Trace struct {
	Off     bool     `toml:"off" doc:"keep no record"`
	Size    Size     `toml:"size" doc:"bytes kept on disk"`
	Keep    Duration `toml:"keep" doc:"how far back"`
	Payload Size     `toml:"payload" doc:"longest payload that is written out"`
}

// Memory steers the garbage collector.
type Memory struct {
	Limit Size  `toml:"limit" doc:"memory the process aims to stay below; from the machine's or cgroup's if 0"`
	GC    int64 `toml:"gc" doc:"garbage collection percentage; from the limit if 0"`
}

// Default is what holds where nobody says otherwise.
func Default() Config {
	return Config{
		Log: "warn", OnGiveUp: "exit",
		Script: Script{
			Time: Duration(2e9), Steps: 10_000_000, Depth: 1000,
			Memory: 64 << 20, Grace: Duration(2e9),
		},
		Bus:   Bus{Retained: 10_000, RetainedBytes: 16 << 20},
		Board: Board{Window: Duration(1e9), MaxValue: 1 << 20, MaxRequests: 65_536},
		MQTT: MQTT{
			Listen: "127.0.0.1:1883", Clients: 1024, MaxPacket: 256 << 10, KeepAlive: Duration(30e9),
			Sessions: 1024, Filters: 1024, Queue: 10_000, Memory: 32 << 20,
			Outbox: Outbox{Limit: 10_000, Bytes: 16 << 20, Overflow: "drop_oldest"},
		},
		Page:  Page{Listen: "127.0.0.1:7878"},
		Stop:  Stop{Hold: Duration(500e6), Languages: []string{"en"}},
		Trace: Trace{Size: 8 << 20, Keep: Duration(600e9), Payload: 4 << 10},
		Models: Models{
			Context: 4096, Predict: 512, Warm: true, InFlight: 1, Queue: 64,
		},
	}
}

// Dir is the robot's folder.
func (c *Config) Dir() string { return c.dir }

// SecretPath is Path for a file that holds a secret: "secret:NAME" is the one of
// that name in the table secrets.
func (c *Config) SecretPath(name string) string {
	if secret, ok := strings.CutPrefix(name, secretPrefix); ok {
		name = c.Secrets[secret]
	}
	return c.Path(name)
}

const secretPrefix = "secret:"

// Path is a file named in the settings: relative names are inside the robot's
// folder, and $CREDENTIALS_DIRECTORY stands for what the service manager hands
// over.
func (c *Config) Path(name string) string {
	if name == "" {
		return ""
	}
	name = os.Expand(name, func(v string) string {
		if v == "CREDENTIALS_DIRECTORY" || v == "STATE_DIRECTORY" || v == "HOME" {
			return os.Getenv(v)
		}
		return "$" + v
	})
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(c.dir, name)
}
