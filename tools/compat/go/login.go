// Logs in to a broker as the arguments say, writes a record and reads it.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const topic = "franz-go-logins"

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	bootstrap := flag.String("bootstrap", "", "address")
	mechanism := flag.String("mechanism", "", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER")
	user := flag.String("user", "", "who logs in")
	password := flag.String("password", "", "and by what; with OAUTHBEARER the token")
	authority := flag.String("ca", "", "PEM file of who is trusted; TLS if it is given")
	store := flag.String("cert", "", "PEM file with a key and its certificate")
	flag.Parse()

	options := []kgo.Opt{
		kgo.SeedBrokers(*bootstrap), kgo.ConsumeTopics(topic), kgo.AllowAutoTopicCreation(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DefaultProduceTopic(topic),
		kgo.RetryTimeout(5 * time.Second), kgo.RecordDeliveryTimeout(10 * time.Second),
	}
	if *authority != "" {
		pem, err := os.ReadFile(*authority)
		check(err)
		config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost"}
		config.RootCAs.AppendCertsFromPEM(pem)
		if *store != "" {
			pair, err := tls.LoadX509KeyPair(*store, *store)
			check(err)
			config.Certificates = []tls.Certificate{pair}
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	auth := scram.Auth{User: *user, Pass: *password}
	switch *mechanism {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: *user, Pass: *password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(auth.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(auth.AsSha512Mechanism()))
	case "OAUTHBEARER":
		options = append(options, kgo.SASL(oauth.Auth{Token: *password}.AsMechanism()))
	}
	client, err := kgo.NewClient(options...)
	check(err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	check(client.Ping(ctx))
	written := kgo.StringRecord("a record")
	check(client.ProduceSync(ctx, written).FirstErr())
	fetches := client.PollFetches(ctx)
	check(fetches.Err())
	if fetches.NumRecords() == 0 || string(fetches.Records()[0].Value) != "a record" {
		check(fmt.Errorf("%d records, not the one that was written", fetches.NumRecords()))
	}
	fmt.Println("served")
}
