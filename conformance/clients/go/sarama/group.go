package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"kaas.example/conformance/agent"
)

// member is a member of a group: the library calls back for each generation and each partition of it.
type member struct {
	topic      string
	group      sarama.ConsumerGroup
	cancel     context.CancelFunc
	ended      sync.WaitGroup
	lock       sync.Mutex
	session    sarama.ConsumerGroupSession
	assigned   []int32
	received   [][]int64
	rebalances int
}

var members = map[string]*member{}

func join(c agent.Command) (agent.Answer, error) {
	config := newConfig()
	config.Consumer.Group.InstanceId = c.Instance
	config.Consumer.Group.Session.Timeout = agent.SessionTimeout
	config.Consumer.Group.Heartbeat.Interval = agent.HeartbeatInterval
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	group, err := sarama.NewConsumerGroup(brokers(), c.Group, config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{topic: c.Topic, group: group, cancel: cancel}
	members[c.Handle] = m
	m.ended.Add(1)
	go m.run(ctx)
	go func() {
		for failed := range group.Errors() {
			fmt.Fprintln(os.Stderr, "group:", failed)
		}
	}()
	return nil, nil
}

func (m *member) run(ctx context.Context) {
	defer m.ended.Done()
	for ctx.Err() == nil {
		if err := m.group.Consume(ctx, []string{m.topic}, m); err != nil && !errors.Is(err, sarama.ErrClosedConsumerGroup) {
			fmt.Fprintln(os.Stderr, "consume:", err)
		}
	}
}

// Setup begins a generation.
func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.session, m.assigned = session, session.Claims()[m.topic]
	m.rebalances++
	return nil
}

// Cleanup ends it.
func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.session, m.assigned = nil, nil
	return nil
}

// ConsumeClaim takes what one partition has while the generation lasts.
func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			m.lock.Lock()
			m.received = append(m.received, []int64{int64(message.Partition), message.Offset})
			session.MarkMessage(message, "")
			m.lock.Unlock()
		case <-session.Context().Done():
			return nil
		}
	}
}

func poll(c agent.Command) (agent.Answer, error) {
	m := members[c.Handle]
	// The generation goes on by itself; this only lets time pass before it is looked at.
	<-time.After(time.Duration(c.Ms) * time.Millisecond)
	m.lock.Lock()
	defer m.lock.Unlock()
	if c.Commit && m.session != nil {
		m.session.Commit()
	}
	answer := agent.Answer{
		"assigned": append([]int32{}, m.assigned...), "records": append([][]int64{}, m.received...), "rebalances": m.rebalances,
	}
	m.received = nil
	return answer, nil
}

func leave(c agent.Command) (agent.Answer, error) {
	m := members[c.Handle]
	delete(members, c.Handle)
	m.cancel()
	m.ended.Wait()
	return nil, m.group.Close()
}

func committed(c agent.Command) (agent.Answer, error) {
	offsets := make([]any, c.Partitions)
	return agent.Answer{"offsets": offsets}, withAdmin(func(admin sarama.ClusterAdmin) error {
		found, err := admin.ListConsumerGroupOffsets(c.Group, nil)
		if err != nil {
			return err
		}
		for partition := range c.Partitions {
			if block := found.GetBlock(c.Topic, partition); block != nil && block.Offset >= 0 {
				offsets[partition] = block.Offset
			}
		}
		return nil
	})
}

func resetOffsets(c agent.Command) (agent.Answer, error) {
	return nil, withClient(func(client sarama.Client) error {
		manager, err := sarama.NewOffsetManagerFromClient(c.Group, client)
		if err != nil {
			return err
		}
		defer manager.Close()
		for partition := range c.Partitions {
			one, err := manager.ManagePartition(c.Topic, partition)
			if err != nil {
				return err
			}
			one.ResetOffset(c.Offset, "")
			defer one.Close()
		}
		manager.Commit()
		return nil
	})
}
