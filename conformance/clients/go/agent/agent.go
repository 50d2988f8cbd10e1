// Package agent is the command loop of a client program: one JSON command a line in, one JSON answer a line out.
package agent

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// MessageBytesMax bounds a batch: records of 1 MiB with room to spare, and less than the topics take.
const MessageBytesMax = 2 << 20

// SessionTimeout is after how long a silent member of a group is gone: the least that brokers take.
const SessionTimeout = 6 * time.Second

// HeartbeatInterval is how often a member says that it is there.
const HeartbeatInterval = SessionTimeout / 12

// MetadataMaxAge is how soon a client notices a topic that was deleted or made anew.
const MetadataMaxAge = time.Second

const commandBytesMax = 1 << 20

// Command is what the runner asks for; which fields count depends on Op.
type Command struct {
	Op         string            `json:"op"`
	Topic      string            `json:"topic"`
	Partition  int32             `json:"partition"`
	Partitions int32             `json:"partitions"`
	Configs    map[string]string `json:"configs"`
	File       string            `json:"file"`
	Codec      string            `json:"codec"`
	Acks       string            `json:"acks"`
	Idempotent bool              `json:"idempotent"`
	Handle     string            `json:"handle"`
	Offset     int64             `json:"offset"`
	Count      int               `json:"count"`
	FetchBytes int32             `json:"fetch_bytes"`
	TimeoutMs  int64             `json:"timeout_ms"`
	Ms         int64             `json:"ms"`
	Timestamps []int64           `json:"timestamps"`
	Group      string            `json:"group"`
	Instance   string            `json:"instance"`
	Commit     bool              `json:"commit"`
	ID         string            `json:"id"`
	Outcome    string            `json:"outcome"`
}

// Timeout is how long a consumer may take.
func (c Command) Timeout() time.Duration { return time.Duration(c.TimeoutMs) * time.Millisecond }

// Answer is what a verb returns.
type Answer map[string]any

// Verb does one command.
type Verb func(Command) (Answer, error)

// Serve answers commands until standard input ends.
func Serve(verbs map[string]Verb) {
	commands := bufio.NewScanner(os.Stdin)
	commands.Buffer(make([]byte, 0, 4096), commandBytesMax)
	answers := json.NewEncoder(os.Stdout)
	for commands.Scan() {
		if err := answers.Encode(answer(verbs, commands.Bytes())); err != nil {
			fmt.Fprintln(os.Stderr, "answer:", err)
			os.Exit(1)
		}
	}
}

func answer(verbs map[string]Verb, line []byte) Answer {
	var command Command
	if err := json.Unmarshal(line, &command); err != nil {
		return Answer{"error": err.Error()}
	}
	verb, known := verbs[command.Op]
	if !known {
		return Answer{"error": "unknown op " + command.Op}
	}
	result, err := verb(command)
	switch {
	case err != nil:
		return Answer{"error": err.Error()}
	case result == nil:
		return Answer{}
	default:
		return result
	}
}

// Handles keeps what outlives one command, by the name that the command gives it.
type Handles[T any] map[string]T

// Get returns the object of the command's handle, made when new, and whether it must be closed after the command.
func (h Handles[T]) Get(c Command, create func() (T, error)) (T, bool, error) {
	if c.Handle == "" {
		made, err := create()
		return made, true, err
	}
	if kept, open := h[c.Handle]; open {
		return kept, false, nil
	}
	made, err := create()
	if err == nil {
		h[c.Handle] = made
	}
	return made, false, err
}
