package main

import (
	"github.com/IBM/sarama"

	"kaas.example/conformance/agent"
)

var (
	transactional = agent.Handles[sarama.SyncProducer]{}
	// open are the handles whose transaction was left open; the next command goes on with it.
	open = map[string]bool{}
)

func newTransactional(c agent.Command) (sarama.SyncProducer, error) {
	config := newConfig()
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = c.ID
	config.Net.MaxOpenRequests = 1
	return sarama.NewSyncProducer(brokers(), config)
}

func transact(c agent.Command) (agent.Answer, error) {
	producer, _, err := transactional.Get(c, func() (sarama.SyncProducer, error) { return newTransactional(c) })
	if err != nil {
		return nil, err
	}
	if !open[c.Handle] {
		if err := producer.BeginTxn(); err != nil {
			return nil, err
		}
	}
	_, err = agent.ReadRecords(c.File, func(record agent.Record) error {
		_, _, err := producer.SendMessage(toSarama(c, record))
		return err
	})
	if err != nil {
		return nil, err
	}
	open[c.Handle] = c.Outcome == "open"
	switch c.Outcome {
	case "commit":
		return nil, producer.CommitTxn()
	case "abort":
		return nil, producer.AbortTxn()
	}
	return nil, nil
}
