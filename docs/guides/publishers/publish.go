// Package publish publishes notifications with github.com/rabbitmq/amqp091-go.
package publish

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Target is what `redrive queue-name --execution ID --url URL --json` prints.
type Target struct {
	Queue     string         `json:"queue"`
	Exchange  string         `json:"exchange"`
	WakeKey   string         `json:"wake_key"`
	URL       string         `json:"url"`
	Arguments map[string]any `json:"arguments"`
}

const (
	unboundMax = 10 * time.Second
	pause      = 100 * time.Millisecond
)

// Publisher publishes to one queue, one message at a time: that keeps the order.
type Publisher struct {
	connection *amqp.Connection
	channel    *amqp.Channel
	returns    chan amqp.Return
	target     Target
	one        sync.Mutex
	// The id that is not confirmed: another one would come before it.
	unsettled string
}

// Open makes the channel of a publisher.
func Open(connection *amqp.Connection, target Target) (*Publisher, error) {
	channel, err := connection.Channel()
	if err != nil {
		return nil, err
	}
	if err := channel.Confirm(false); err != nil {
		return nil, err
	}
	// One message is under way at a time, so one place is enough for what is returned.
	returns := channel.NotifyReturn(make(chan amqp.Return, 1))
	return &Publisher{connection: connection, channel: channel, returns: returns, target: target}, nil
}

// Publish returns after the broker's confirm. On an error publish again with the same id: it may have arrived.
func (p *Publisher) Publish(ctx context.Context, execution, id, contentType string, body []byte) error {
	p.one.Lock()
	defer p.one.Unlock()
	if p.unsettled != "" && p.unsettled != id {
		return fmt.Errorf("%s is not published: %s is not confirmed, publish that again first", id, p.unsettled)
	}
	p.unsettled = id
	message := amqp.Publishing{
		MessageId:    id,
		Type:         "notification",
		ContentType:  contentType,
		Timestamp:    time.Now(),
		DeliveryMode: amqp.Persistent,
		Headers:      amqp.Table{"x-redrive-url": p.target.URL, "x-redrive-execution": execution},
		Body:         body,
	}
	giveUp := time.Now().Add(unboundMax)
	for {
		placed, err := p.confirmed(ctx, message)
		if err != nil {
			return fmt.Errorf("%s is not confirmed: %w", id, err)
		}
		if placed {
			p.unsettled = ""
			return nil
		}
		exists, err := p.exists()
		if err != nil {
			return fmt.Errorf("%s is not confirmed: %w", id, err)
		}
		if !exists {
			if err := p.declare(); err != nil {
				return fmt.Errorf("%s is not confirmed: %w", id, err)
			}
			continue
		}
		if time.Now().After(giveUp) {
			return fmt.Errorf("%s is not confirmed: the queue exists and takes no messages", id)
		}
		nudge := amqp.Publishing{Body: []byte(p.target.Queue)}
		if err := p.channel.PublishWithContext(ctx, p.target.Exchange, p.target.WakeKey, false, false, nudge); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// confirmed says whether a queue has it; false: it was returned, which comes before the confirm.
func (p *Publisher) confirmed(ctx context.Context, message amqp.Publishing) (bool, error) {
	// What was returned after its caller had given up would keep the next return from being taken.
	select {
	case <-p.returns:
	default:
	}
	confirm, err := p.channel.PublishWithDeferredConfirmWithContext(
		ctx, p.target.Exchange, p.target.Queue, true, false, message)
	if err != nil {
		return false, err
	}
	// A broker under an alarm says nothing: give ctx a deadline.
	acked, err := confirm.WaitContext(ctx)
	if err != nil {
		return false, err
	}
	if !acked {
		return false, errors.New("the broker refused the message")
	}
	select {
	case returned := <-p.returns:
		return returned.MessageId != message.MessageId, nil
	default:
		return true, nil
	}
}

// exists asks on a channel of its own: a refusal closes it.
func (p *Publisher) exists() (bool, error) {
	channel, err := p.connection.Channel()
	if err != nil {
		return false, err
	}
	defer channel.Close()
	_, err = channel.QueueDeclarePassive(p.target.Queue, true, false, false, false, nil)
	var refused *amqp.Error
	if errors.As(err, &refused) && refused.Code == amqp.NotFound {
		return false, nil
	}
	return err == nil, err
}

func (p *Publisher) declare() error {
	arguments := amqp.Table{}
	for key, value := range p.target.Arguments {
		// JSON has no integers.
		if number, is := value.(float64); is {
			value = int64(number)
		}
		arguments[key] = value
	}
	if _, err := p.channel.QueueDeclare(p.target.Queue, true, false, false, false, arguments); err != nil {
		return err
	}
	return p.channel.QueueBind(p.target.Queue, p.target.Queue, p.target.Exchange, false, nil)
}
