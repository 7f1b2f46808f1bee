// Billing takes the orders of the shared durable subscription "billing", until Ctrl-C or SIGTERM.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/Azure/go-amqp"
)

func main() {
	log.SetFlags(0)
	stop, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	for stop.Err() == nil {
		// go-amqp doesn't connect again by itself.
		err := consume(stop)
		var refused *amqp.LinkError
		switch {
		case errors.Is(err, context.Canceled):
		case errors.As(err, &refused):
			log.Fatal(err)
		default:
			log.Printf("the gateway is away, trying again: %v", err)
			select {
			case <-stop.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

// consume bills orders until the context ends or the connection is lost, which it returns.
func consume(stop context.Context) error {
	url := cmp.Or(os.Getenv("AMQP_URL"), "amqp://127.0.0.1:5672")
	connection, err := amqp.Dial(stop, url, nil)
	if err != nil {
		return err
	}
	// What has come and isn't accepted goes to others, and the subscription stays;
	// receiver.Close would end it.
	defer connection.Close()
	session, err := connection.NewSession(stop, nil)
	if err != nil {
		return err
	}
	receiver, err := session.NewReceiver(stop, "orders", &amqp.ReceiverOptions{
		Name:               "billing|global",
		SourceDurability:   amqp.DurabilityUnsettledState,
		SourceExpiryPolicy: amqp.ExpiryPolicyNever,
		SourceCapabilities: []string{"topic", "shared", "global"},
		Credit:             10,
	})
	if err != nil {
		return err
	}
	for {
		message, err := receiver.Receive(stop, nil)
		if err != nil {
			return err
		}
		// An order in hand is brought to its end also when the program is told to stop.
		if err := settle(context.WithoutCancel(stop), receiver, message); err != nil {
			return err
		}
	}
}

func settle(ctx context.Context, receiver *amqp.Receiver, message *amqp.Message) error {
	order, _ := message.ApplicationProperties["order"].(int64)
	cents, ok := message.ApplicationProperties["cents"].(int64)
	if !ok || cents < 0 {
		fmt.Printf("rejected order %d: %d cents\n", order, cents)
		return receiver.RejectMessage(ctx, message, &amqp.Error{ // for ever: a dead letter
			Condition:   "shop:cannot-bill",
			Description: "an order costs something",
		})
	}
	fmt.Printf("billed order %d: %d cents\n", order, cents)
	return receiver.AcceptMessage(ctx, message)
}
