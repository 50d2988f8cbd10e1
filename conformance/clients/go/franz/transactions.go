package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.example/conformance/agent"
)

// open are the handles whose transaction was left open; the next command goes on with it.
var open = map[string]bool{}

func transact(c agent.Command) (agent.Answer, error) {
	client, _, err := producers.Get(c, func() (*kgo.Client, error) {
		return newClient(kgo.TransactionalID(c.ID), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	})
	if err != nil {
		return nil, err
	}
	if !open[c.Handle] {
		if err := client.BeginTransaction(); err != nil {
			return nil, err
		}
	}
	if _, err := write(client, c); err != nil {
		return nil, err
	}
	open[c.Handle] = c.Outcome == "open"
	if open[c.Handle] {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	return nil, client.EndTransaction(ctx, kgo.TransactionEndTry(c.Outcome == "commit"))
}
