package control

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/metamcp/metamcp/integration/attach"
)

// hangPatience is how long a host may take to say anything at all.
const hangPatience = 5 * time.Second

// Answers tells whether a host is there. One that was killed may take connections
// for a moment, and one that is stopped does so for ever, so it is asked: the error
// is an [*attach.HangsError] where it does not answer, or that of ctx.
func Answers(ctx context.Context, info HostInfo) (bool, error) {
	return answers(ctx, info, hangPatience)
}

func answers(parent context.Context, info HostInfo, patience time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(parent, patience)
	defer cancel()
	const again = 10 * time.Millisecond
	for {
		client, err := Dial(info)
		if err == nil {
			err = client.ping(ctx)
			client.Close()
		}
		var refused *Error
		switch {
		case err == nil, errors.As(err, &refused) && refused.Status != 0:
			return true, nil // whatever it says, it is there
		case attach.NobodyListens(err):
			return false, nil
		case parent.Err() != nil:
			return false, parent.Err()
		case ctx.Err() != nil:
			return false, &attach.HangsError{Host: info}
		}
		select {
		case <-time.After(again): // it may be ending
		case <-ctx.Done():
		}
	}
}

// ping makes sure that the host answers.
func (c *Client) ping(ctx context.Context) error {
	resp, err := c.Do(ctx, http.MethodGet, "/healthz", nil)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
