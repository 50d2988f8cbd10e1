package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.example/conformance/agent"
)

// member is a member of a group: the library joins and rebalances by itself, and tells what it has.
type member struct {
	client     *kgo.Client
	lock       sync.Mutex
	assigned   map[int32]bool
	rebalances int
}

var members = map[string]*member{}

func join(c agent.Command) (agent.Answer, error) {
	m := &member{assigned: map[int32]bool{}}
	options := []kgo.Opt{
		kgo.ConsumerGroup(c.Group), kgo.ConsumeTopics(c.Topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.SessionTimeout(agent.SessionTimeout), kgo.HeartbeatInterval(agent.HeartbeatInterval),
		kgo.OnPartitionsAssigned(m.change(true)), kgo.OnPartitionsRevoked(m.change(false)), kgo.OnPartitionsLost(m.change(false)),
	}
	if c.Instance != "" {
		options = append(options, kgo.InstanceID(c.Instance))
	}
	client, err := newClient(options...)
	m.client = client
	members[c.Handle] = m
	return nil, err
}

func (m *member) change(gained bool) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
		m.lock.Lock()
		defer m.lock.Unlock()
		for _, partitions := range topics {
			for _, partition := range partitions {
				m.assigned[partition] = gained
				m.rebalances++
			}
		}
	}
}

func poll(c agent.Command) (agent.Answer, error) {
	m := members[c.Handle]
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(c.Ms)*time.Millisecond)
	defer cancel()
	received := [][]int64{}
	for ctx.Err() == nil {
		fetches := m.client.PollFetches(ctx)
		for _, record := range fetches.Records() {
			received = append(received, []int64{int64(record.Partition), record.Offset})
		}
		for _, failed := range fetches.Errors() {
			fmt.Fprintln(os.Stderr, "fetch:", failed.Err)
		}
	}
	if c.Commit && len(received) > 0 {
		commit, cancel := context.WithTimeout(context.Background(), requestTimeout)
		defer cancel()
		if err := m.client.CommitUncommittedOffsets(commit); err != nil {
			return nil, err
		}
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	assigned := []int32{}
	for partition, held := range m.assigned {
		if held {
			assigned = append(assigned, partition)
		}
	}
	return agent.Answer{"assigned": assigned, "records": received, "rebalances": m.rebalances}, nil
}

func leave(c agent.Command) (agent.Answer, error) {
	members[c.Handle].client.Close()
	delete(members, c.Handle)
	return nil, nil
}

func committed(c agent.Command) (agent.Answer, error) {
	offsets := make([]any, c.Partitions)
	return agent.Answer{"offsets": offsets}, withAdmin(func(ctx context.Context, admin *kadm.Client) error {
		found, err := admin.FetchOffsets(ctx, c.Group)
		for partition := range c.Partitions {
			if offset, there := found.Lookup(c.Topic, partition); there {
				offsets[partition] = offset.At
			}
		}
		return err
	})
}

func resetOffsets(c agent.Command) (agent.Answer, error) {
	return nil, withAdmin(func(ctx context.Context, admin *kadm.Client) error {
		offsets := kadm.Offsets{}
		for partition := range c.Partitions {
			offsets.AddOffset(c.Topic, partition, c.Offset, -1)
		}
		return admin.CommitAllOffsets(ctx, c.Group, offsets)
	})
}
