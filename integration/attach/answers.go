package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// hangPatience is how long a host may take to say anything at all.
const hangPatience = 5 * time.Second

// Answers tells whether a host is there. One that was killed may take connections
// for a moment, and one that is stopped does so for ever, so it is asked, for 5 s at
// most: the error is a [*HangsError] where it does not answer, or that of ctx. Where its
// socket is not used (see [NotOursError]) or may not be, the error says so at once.
func Answers(ctx context.Context, host HostInfo) (bool, error) {
	return answers(ctx, host, hangPatience)
}

func answers(parent context.Context, host HostInfo, patience time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(parent, patience)
	defer cancel()
	const again = 10 * time.Millisecond
	for {
		err := ping(ctx, host)
		switch {
		case err == nil:
			return true, nil
		case NobodyListens(err):
			return false, nil
		case Unusable(err):
			return false, fmt.Errorf("the host %s (pid %d) cannot be reached: %w", host.Name, host.PID, err)
		case parent.Err() != nil:
			return false, parent.Err()
		case ctx.Err() != nil:
			return false, &HangsError{Host: host}
		}
		select {
		case <-time.After(again): // it may be ending
		case <-ctx.Done():
		}
	}
}

// Unusable tells whether a failure of [DialSocket] would be the same again, whatever the
// host does: it lies with who may use the socket.
func Unusable(err error) bool {
	var notOurs *NotOursError
	return errors.As(err, &notOurs) || errors.Is(err, fs.ErrPermission)
}

// ping makes sure that a host answers. Whatever it says, it is there.
func ping(ctx context.Context, host HostInfo) error {
	conn, err := DialSocket(ctx, host.Socket)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()                                              // all that matters was read
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // ends what waits
	defer stop()
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: metamcp\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}
