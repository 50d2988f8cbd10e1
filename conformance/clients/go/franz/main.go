// The franz-go client program.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.example/conformance/agent"
)

const (
	requestTimeout      = 60 * time.Second
	unknownTopicRetries = 100
)

var (
	producers = agent.Handles[*kgo.Client]{}
	consumers = agent.Handles[*kgo.Client]{}
	codecs    = map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	acks = map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}
)

func main() {
	agent.Serve(map[string]agent.Verb{
		"produce": produce, "consume": consume, "idle": idle, "watermarks": watermarks, "times": times,
		"topics": topics, "create": create, "delete": remove, "member": join, "poll": poll, "leave": leave,
		"committed": committed, "reset_offsets": resetOffsets, "transact": transact,
	})
}

func newClient(options ...kgo.Opt) (*kgo.Client, error) {
	common := []kgo.Opt{
		kgo.SeedBrokers(os.Args[1]), kgo.AllowAutoTopicCreation(),
		kgo.MetadataMaxAge(agent.MetadataMaxAge), kgo.MetadataMinAge(agent.MetadataMaxAge / 10),
		// A new topic is not everywhere at once, and the library gives up after four looks.
		kgo.UnknownTopicRetries(unknownTopicRetries),
	}
	return kgo.NewClient(append(common, options...)...)
}

func newProducer(c agent.Command) (*kgo.Client, error) {
	options := []kgo.Opt{
		kgo.RequiredAcks(acks[c.Acks]), kgo.ProducerBatchCompression(codecs[c.Codec]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(agent.MessageBytesMax),
	}
	if !c.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	return newClient(options...)
}

func produce(c agent.Command) (agent.Answer, error) {
	client, closing, err := producers.Get(c, func() (*kgo.Client, error) { return newProducer(c) })
	if err != nil {
		return nil, err
	}
	if closing {
		defer client.Close()
	}
	count, err := write(client, c)
	if !closing && errors.Is(err, kerr.UnknownTopicID) {
		// The library saw that the topic was made anew before it sent anything, and wants to be told that the new one
		// is meant. Had it sent something, the checks would count records too many.
		client.PurgeTopicsFromProducing(c.Topic)
		count, err = write(client, c)
	}
	if err != nil {
		return nil, err
	}
	return agent.Answer{"records": count}, nil
}

func write(client *kgo.Client, c agent.Command) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*requestTimeout)
	defer cancel()
	var results kgo.FirstErrPromise
	count, err := agent.ReadRecords(c.File, func(record agent.Record) error {
		client.Produce(ctx, toKgo(c, record), results.Promise())
		return nil
	})
	if failed := results.Err(); failed != nil {
		return 0, failed
	}
	return count, err
}

func toKgo(c agent.Command, record agent.Record) *kgo.Record {
	out := &kgo.Record{Topic: c.Topic, Partition: c.Partition, Key: record.Key, Value: record.Value}
	if record.Timestamp >= 0 {
		out.Timestamp = time.UnixMilli(record.Timestamp)
	}
	for _, header := range record.Headers {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: header.Name, Value: header.Value})
	}
	return out
}

func fromKgo(record *kgo.Record) agent.Record {
	out := agent.Record{Timestamp: record.Timestamp.UnixMilli(), Key: record.Key, Value: record.Value}
	for _, header := range record.Headers {
		out.Headers = append(out.Headers, agent.Header{Name: header.Key, Value: header.Value})
	}
	return out
}

func newConsumer(c agent.Command) (*kgo.Client, error) {
	at := map[string]map[int32]kgo.Offset{c.Topic: {c.Partition: kgo.NewOffset().At(c.Offset)}}
	options := []kgo.Opt{
		kgo.ConsumePartitions(at), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(500 * time.Millisecond),
	}
	if c.FetchBytes > 0 {
		options = append(options, kgo.FetchMaxPartitionBytes(c.FetchBytes), kgo.FetchMaxBytes(c.FetchBytes))
	}
	return newClient(options...)
}

func consume(c agent.Command) (agent.Answer, error) {
	client, closing, err := consumers.Get(c, func() (*kgo.Client, error) { return newConsumer(c) })
	if err != nil {
		return nil, err
	}
	if closing {
		defer client.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout())
	defer cancel()
	out, err := agent.NewWriter(c.File)
	if err != nil {
		return nil, err
	}
	for out.Count < c.Count {
		fetches := client.PollRecords(ctx, c.Count-out.Count)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%d of %d records missing", c.Count-out.Count, c.Count)
		}
		for _, failed := range fetches.Errors() {
			switch {
			case closing:
				return nil, failed.Err
			case errors.Is(failed.Err, kerr.UnknownTopicID):
				startOver(client, failed.Topic, failed.Partition)
			default: // a kept consumer outlives restarts, whose errors the library retries
				fmt.Fprintln(os.Stderr, "fetch:", failed.Err)
			}
		}
		for _, record := range fetches.Records() {
			if err := out.Write(fromKgo(record)); err != nil {
				return nil, err
			}
		}
	}
	return agent.Answer{"records": out.Count}, out.Close()
}

// startOver is what the library wants of an application whose topic was deleted and made anew.
func startOver(client *kgo.Client, topic string, partition int32) {
	client.PurgeTopicsFromConsuming(topic)
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}})
}

func idle(c agent.Command) (agent.Answer, error) {
	client, err := newConsumer(c)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(c.Ms)*time.Millisecond)
	defer cancel()
	count := 0
	for ctx.Err() == nil {
		count += client.PollFetches(ctx).NumRecords()
	}
	return agent.Answer{"records": count}, nil
}

func withAdmin(work func(context.Context, *kadm.Client) error) error {
	client, err := newClient()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	return work(ctx, kadm.NewClient(client))
}

func watermarks(c agent.Command) (agent.Answer, error) {
	answer := agent.Answer{}
	return answer, withAdmin(func(ctx context.Context, admin *kadm.Client) error {
		low, err := admin.ListStartOffsets(ctx, c.Topic)
		if err != nil {
			return err
		}
		high, err := admin.ListEndOffsets(ctx, c.Topic)
		if err != nil {
			return err
		}
		from, _ := low.Lookup(c.Topic, c.Partition)
		to, _ := high.Lookup(c.Topic, c.Partition)
		answer["low"], answer["high"] = from.Offset, to.Offset
		return nil
	})
}

func times(c agent.Command) (agent.Answer, error) {
	offsets := []any{}
	err := withAdmin(func(ctx context.Context, admin *kadm.Client) error {
		for _, timestamp := range c.Timestamps {
			listed, err := admin.ListOffsetsAfterMilli(ctx, timestamp, c.Topic)
			if err != nil {
				return err
			}
			found, _ := listed.Lookup(c.Topic, c.Partition)
			if found.Err != nil {
				return found.Err
			}
			if found.Timestamp < 0 { // kadm answers the end offset when no record is that late
				offsets = append(offsets, nil)
			} else {
				offsets = append(offsets, found.Offset)
			}
		}
		return nil
	})
	return agent.Answer{"offsets": offsets}, err
}

func topics(agent.Command) (agent.Answer, error) {
	counts := map[string]int{}
	err := withAdmin(func(ctx context.Context, admin *kadm.Client) error {
		listed, err := admin.ListTopics(ctx)
		for name, topic := range listed {
			counts[name] = len(topic.Partitions)
		}
		return err
	})
	return agent.Answer{"topics": counts}, err
}

func create(c agent.Command) (agent.Answer, error) {
	configs := map[string]*string{}
	for name, value := range c.Configs {
		configs[name] = kadm.StringPtr(value)
	}
	return nil, withAdmin(func(ctx context.Context, admin *kadm.Client) error {
		_, err := admin.CreateTopic(ctx, c.Partitions, 1, configs, c.Topic)
		return err
	})
}

func remove(c agent.Command) (agent.Answer, error) {
	return nil, withAdmin(func(ctx context.Context, admin *kadm.Client) error {
		_, err := admin.DeleteTopic(ctx, c.Topic)
		return err
	})
}
