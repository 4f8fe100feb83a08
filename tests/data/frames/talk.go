// What franz-go says to a broker: topics, a producer, a group, transactions, and what it can ask.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const topic = "franz-go"

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func client(options ...kgo.Opt) *kgo.Client {
	options = append(options, kgo.SeedBrokers(os.Args[1]), kgo.ClientID("franz-go"))
	made, err := kgo.NewClient(options...)
	check(err)
	return made
}

func records(value string) []*kgo.Record {
	made := make([]*kgo.Record, 20)
	for i := range made {
		made[i] = &kgo.Record{Topic: topic, Key: []byte(fmt.Sprint(i)), Value: []byte(value)}
	}
	return made
}

func consume(ctx context.Context, options ...kgo.Opt) {
	reader := client(append(options, kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond))...)
	for seen := 0; seen < 60; {
		fetches := reader.PollFetches(ctx)
		check(fetches.Err())
		seen += fetches.NumRecords()
	}
	if group, _ := reader.GroupMetadata(); group != "" {
		time.Sleep(time.Second)
		check(reader.CommitUncommittedOffsets(ctx))
	}
	reader.Close()
}

func ask(ctx context.Context, to *kgo.Client, requests ...kmsg.Request) {
	for _, request := range requests {
		_, err := to.Request(ctx, request)
		check(err)
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	admin := client()
	create := kmsg.NewPtrCreateTopicsRequest()
	row := kmsg.NewCreateTopicsRequestTopic()
	row.Topic, row.NumPartitions, row.ReplicationFactor = topic, 3, 1
	create.Topics = append(create.Topics, row)
	ask(ctx, admin, create)

	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.ZstdCompression()} {
		writer := client(kgo.ProducerBatchCompression(codec))
		check(writer.ProduceSync(ctx, records("some text, some text")...).FirstErr())
		writer.Close()
	}
	plain := client(kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()))
	check(plain.ProduceSync(ctx, records("")...).FirstErr())
	plain.Close()
	consume(ctx, kgo.ConsumerGroup("franz-go"), kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(300*time.Millisecond))
	consume(ctx)

	sure := client(kgo.TransactionalID("franz-go"))
	for _, how := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		check(sure.BeginTransaction())
		check(sure.ProduceSync(ctx, records("sure")...).FirstErr())
		check(sure.EndTransaction(ctx, how))
	}
	sure.Close()

	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups = []string{"franz-go"}
	configs := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	configs.Resources = append(configs.Resources, resource)
	remove := kmsg.NewPtrDeleteTopicsRequest()
	gone := kmsg.NewDeleteTopicsRequestTopic()
	gone.Topic = kmsg.StringPtr(topic)
	remove.Topics, remove.TopicNames = append(remove.Topics, gone), []string{topic}
	ask(ctx, admin, kmsg.NewPtrListGroupsRequest(), describe, configs,
		kmsg.NewPtrDescribeClusterRequest(), kmsg.NewPtrListTransactionsRequest(), remove)
	admin.Close()
}
