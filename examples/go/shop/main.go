// A shop publishes orders and ends when all of them are on the gateway's disk.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/Azure/go-amqp"
)

const orders = 10

func main() {
	log.SetFlags(0)
	if err := publish(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("published %d orders\n", orders)
}

func publish(ctx context.Context) error {
	url := cmp.Or(os.Getenv("AMQP_URL"), "amqp://127.0.0.1:5672")
	connection, err := amqp.Dial(ctx, url, nil)
	if err != nil {
		return err
	}
	defer connection.Close()
	session, err := connection.NewSession(ctx, nil)
	if err != nil {
		return err
	}
	sender, err := session.NewSender(ctx, "orders", nil)
	if err != nil {
		return err
	}
	for number := 1; number <= orders; number++ {
		// It returns when the order is accepted: it is on the disk.
		if err := sender.Send(ctx, order(number), nil); err != nil {
			return fmt.Errorf("%d orders are published, then: %w", number-1, err)
		}
	}
	return nil
}

func order(number int) *amqp.Message {
	cents := 1000 + number
	if number == 7 { // nobody can bill this one
		cents = -1
	}
	return &amqp.Message{
		Header:     &amqp.MessageHeader{Durable: true},
		Properties: &amqp.MessageProperties{MessageID: fmt.Sprintf("order-%d", number)},
		ApplicationProperties: map[string]any{
			"order": int64(number),
			"cents": int64(cents),
		},
		Value: "pizza",
	}
}
