// The sarama client program.
package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"

	"kaas.example/conformance/agent"
)

var (
	producers = agent.Handles[sarama.AsyncProducer]{}
	consumers = agent.Handles[*partitionReader]{}
	codecs    = map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}
	acks = map[string]sarama.RequiredAcks{
		"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll,
	}
)

func main() {
	agent.Serve(map[string]agent.Verb{
		"produce": produce, "consume": consume, "idle": idle, "watermarks": watermarks, "times": times,
		"topics": topics, "create": create, "delete": remove, "member": join, "poll": poll, "leave": leave,
		"committed": committed, "reset_offsets": resetOffsets, "transact": transact,
	})
}

func newConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V3_7_0_0
	config.Metadata.RefreshFrequency = agent.MetadataMaxAge
	config.Consumer.Return.Errors = true
	return config
}

func brokers() []string { return []string{os.Args[1]} }

func newProducer(c agent.Command) (sarama.AsyncProducer, error) {
	config := newConfig()
	config.Producer.RequiredAcks = acks[c.Acks]
	config.Producer.Compression = codecs[c.Codec]
	config.Producer.MaxMessageBytes = agent.MessageBytesMax
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Producer.Retry.Max = 20
	if c.Idempotent {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	return sarama.NewAsyncProducer(brokers(), config)
}

func produce(c agent.Command) (agent.Answer, error) {
	producer, closing, err := producers.Get(c, func() (sarama.AsyncProducer, error) { return newProducer(c) })
	if err != nil {
		return nil, err
	}
	if closing {
		defer producer.Close()
	}
	sent := make(chan int, 1)
	go func() {
		count, failed := agent.ReadRecords(c.File, func(record agent.Record) error {
			producer.Input() <- toSarama(c, record)
			return nil
		})
		if failed != nil {
			fmt.Fprintln(os.Stderr, "read:", failed)
		}
		sent <- count
	}()
	count, done, total := 0, false, 0
	for !done || count < total {
		select {
		case <-producer.Successes():
			count++
		case failed := <-producer.Errors():
			err = failed.Err
			count++
		case total = <-sent:
			done = true
		}
	}
	return agent.Answer{"records": count}, err
}

func encoder(data []byte) sarama.Encoder {
	if data == nil {
		return nil
	}
	return sarama.ByteEncoder(data)
}

func toSarama(c agent.Command, record agent.Record) *sarama.ProducerMessage {
	out := &sarama.ProducerMessage{
		Topic: c.Topic, Partition: c.Partition, Key: encoder(record.Key), Value: encoder(record.Value),
	}
	if record.Timestamp >= 0 {
		out.Timestamp = time.UnixMilli(record.Timestamp)
	}
	for _, header := range record.Headers {
		out.Headers = append(out.Headers, sarama.RecordHeader{Key: []byte(header.Name), Value: header.Value})
	}
	return out
}

func fromSarama(message *sarama.ConsumerMessage) agent.Record {
	out := agent.Record{Timestamp: message.Timestamp.UnixMilli(), Key: message.Key, Value: message.Value}
	for _, header := range message.Headers {
		out.Headers = append(out.Headers, agent.Header{Name: string(header.Key), Value: header.Value})
	}
	return out
}

// partitionReader is a consumer of one partition.
type partitionReader struct {
	consumer  sarama.Consumer
	partition sarama.PartitionConsumer
}

func (r *partitionReader) close() {
	r.partition.AsyncClose()
	for range r.partition.Messages() {
	}
	r.consumer.Close()
}

func newReader(c agent.Command) (*partitionReader, error) {
	config := newConfig()
	if c.FetchBytes > 0 {
		config.Consumer.Fetch.Default = c.FetchBytes
	}
	consumer, err := sarama.NewConsumer(brokers(), config)
	if err != nil {
		return nil, err
	}
	partition, err := consumer.ConsumePartition(c.Topic, c.Partition, c.Offset)
	if err != nil {
		consumer.Close()
		return nil, err
	}
	return &partitionReader{consumer, partition}, nil
}

func consume(c agent.Command) (agent.Answer, error) {
	reader, closing, err := consumers.Get(c, func() (*partitionReader, error) { return newReader(c) })
	if err != nil {
		return nil, err
	}
	if closing {
		defer reader.close()
	}
	out, err := agent.NewWriter(c.File)
	if err != nil {
		return nil, err
	}
	deadline := time.After(c.Timeout())
	for out.Count < c.Count {
		select {
		case message := <-reader.partition.Messages():
			if message == nil {
				return nil, errors.New("the partition consumer ended")
			}
			if err := out.Write(fromSarama(message)); err != nil {
				return nil, err
			}
		case failed := <-reader.partition.Errors():
			if closing {
				return nil, failed
			}
			fmt.Fprintln(os.Stderr, "fetch:", failed)
		case <-deadline:
			return nil, fmt.Errorf("%d of %d records missing", c.Count-out.Count, c.Count)
		}
	}
	return agent.Answer{"records": out.Count}, out.Close()
}

func idle(c agent.Command) (agent.Answer, error) {
	reader, err := newReader(c)
	if err != nil {
		return nil, err
	}
	defer reader.close()
	deadline := time.After(time.Duration(c.Ms) * time.Millisecond)
	for count := 0; ; {
		select {
		case <-reader.partition.Messages():
			count++
		case <-deadline:
			return agent.Answer{"records": count}, nil
		}
	}
}

func withClient(work func(sarama.Client) error) error {
	client, err := sarama.NewClient(brokers(), newConfig())
	if err != nil {
		return err
	}
	defer client.Close()
	return work(client)
}

func watermarks(c agent.Command) (agent.Answer, error) {
	answer := agent.Answer{}
	return answer, withClient(func(client sarama.Client) error {
		for name, at := range map[string]int64{"low": sarama.OffsetOldest, "high": sarama.OffsetNewest} {
			offset, err := client.GetOffset(c.Topic, c.Partition, at)
			if err != nil {
				return err
			}
			answer[name] = offset
		}
		return nil
	})
}

func times(c agent.Command) (agent.Answer, error) {
	offsets := []any{}
	err := withClient(func(client sarama.Client) error {
		for _, timestamp := range c.Timestamps {
			offset, err := client.GetOffset(c.Topic, c.Partition, timestamp)
			if err != nil {
				return err
			}
			if offset < 0 {
				offsets = append(offsets, nil)
			} else {
				offsets = append(offsets, offset)
			}
		}
		return nil
	})
	return agent.Answer{"offsets": offsets}, err
}

func topics(agent.Command) (agent.Answer, error) {
	counts := map[string]int{}
	err := withClient(func(client sarama.Client) error {
		names, err := client.Topics()
		for _, name := range names {
			partitions, failed := client.Partitions(name)
			err = errors.Join(err, failed)
			counts[name] = len(partitions)
		}
		return err
	})
	return agent.Answer{"topics": counts}, err
}

func withAdmin(work func(sarama.ClusterAdmin) error) error {
	admin, err := sarama.NewClusterAdmin(brokers(), newConfig())
	if err != nil {
		return err
	}
	defer admin.Close()
	return work(admin)
}

func create(c agent.Command) (agent.Answer, error) {
	detail := &sarama.TopicDetail{NumPartitions: c.Partitions, ReplicationFactor: 1, ConfigEntries: map[string]*string{}}
	for name, value := range c.Configs {
		detail.ConfigEntries[name] = &value
	}
	return nil, withAdmin(func(admin sarama.ClusterAdmin) error { return admin.CreateTopic(c.Topic, detail, false) })
}

func remove(c agent.Command) (agent.Answer, error) {
	return nil, withAdmin(func(admin sarama.ClusterAdmin) error { return admin.DeleteTopic(c.Topic) })
}
