package front

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"
)

// The bounds of bodies that are being read.
const (
	// largeBody is the size from which a body needs a place, so that many clients
	// with large ones do not fill the memory. maxLargeBodies is how many there are,
	// and maxLargeEach how many of them one principal may have.
	largeBody      = 256 << 10
	maxLargeBodies = 16
	maxLargeEach   = 4
	// pieceTime is how long the next largeBody bytes of a body that has a place may
	// take: 32 KiB a second.
	pieceTime = 8 * time.Second
	// discardTime is how long what is sent of a body that is too long is read and
	// thrown away, so that its client sees the answer.
	discardTime = 5 * time.Second
)

// The bounds of the messages whose requests are not answered yet, which stay until they
// are. What a client may have to send so that there are fewer, an answer or the end of a
// request, has none, and a request that goes on with one that is counted has as much room
// again.
const (
	// maxOpenEach is how many bytes those of one principal have together, and maxOpen
	// those of all. Where messages may be large there is room for two of one, and four of
	// all.
	maxOpenEach = 128 << 20
	maxOpen     = 256 << 20
	// smallBody is the size up to which a message is not counted.
	smallBody = 4 << 10
)

// bodies counts the bodies that are being read, and the bytes of those whose requests
// are not answered yet, by principal.
type bodies struct {
	mu    sync.Mutex
	all   map[string]int
	large map[string]int
	total int           // large ones
	freed chan struct{} // closed, and made anew, when a place comes free

	open      map[string]int64
	openTotal int64
}

func newBodies() *bodies {
	return &bodies{all: map[string]int{}, large: map[string]int{}, freed: make(chan struct{}), open: map[string]int64{}}
}

// hold counts the message of a request until free is called, once, which waits for no
// lock but this one.
func (b *bodies) hold(key string, body []byte, each, all int64) (free func(), _ *refusal) {
	full := func(whose string, most int64) *refusal {
		return &refusal{
			status: http.StatusTooManyRequests, code: codeTooMany, retry: time.Second,
			why: fmt.Sprintf("the requests of %s that are not answered yet would have more than %d MiB with this one, which is the most; wait for answers, or send less at once", whose, most>>20),
		}
	}
	n := int64(cap(body))
	b.mu.Lock()
	defer b.mu.Unlock()
	switch own, total := b.open[key]+n, b.openTotal+n; {
	case own > each:
		return nil, full("clients with this token or certificate, or without one,", each)
	case total > all:
		return nil, full("all clients of this host together", all)
	default:
		b.open[key], b.openTotal = own, total
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.open[key] -= n; b.open[key] == 0 {
			delete(b.open, key)
		}
		b.openTotal -= n
	}, nil
}

func less(of map[string]int, key string) {
	if of[key]--; of[key] == 0 {
		delete(of, key)
	}
}

// begin counts one more body, if there are not that many already.
func (b *bodies) begin(key string, most int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all[key] >= most {
		return false
	}
	b.all[key]++
	return true
}

func (b *bodies) end(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	less(b.all, key)
}

// place waits for the place of a large body.
func (b *bodies) place(ctx context.Context, key string) error {
	for {
		b.mu.Lock()
		if b.total < maxLargeBodies && b.large[key] < maxLargeEach {
			b.total++
			b.large[key]++
			b.mu.Unlock()
			return nil
		}
		freed := b.freed
		b.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *bodies) leave(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total--
	less(b.large, key)
	close(b.freed)
	b.freed = make(chan struct{})
}

// body reads the body of a request whole.
func (h *HTTP) body(w http.ResponseWriter, r *http.Request, who Principal) ([]byte, *refusal) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, &refusal{status: http.StatusUnsupportedMediaType, code: codeInvalid, why: "the Content-Type of a message is application/json"}
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, &refusal{status: http.StatusUnsupportedMediaType, code: codeInvalid, why: "messages are taken without a Content-Encoding"}
	}
	if !h.bodies.begin(who.Key, h.o.MaxEach) {
		return nil, &refusal{
			status: http.StatusTooManyRequests, code: codeTooMany, retry: time.Second,
			why: fmt.Sprintf("%d bodies of this client are being sent, which is the most; send them one after the other", h.o.MaxEach),
		}
	}
	defer h.bodies.end(who.Key)
	in := &bodyReader{h: h, r: r, control: http.NewResponseController(w), key: who.Key}
	body, err := in.read()
	switch {
	case err == nil:
		return body, nil
	case errors.Is(err, errBodyTooLong):
		w.Header().Set("Connection", "close")
		in.discard()
		return nil, &refusal{status: http.StatusRequestEntityTooLarge, code: codeInvalid, why: "the body is longer than one message may be (the setting http.maxBodyKb)"}
	}
	w.Header().Set("Connection", "close") // nobody waits for the rest
	return nil, &refusal{status: http.StatusBadRequest, code: codeParse, why: "the body could not be read in time: " + err.Error()}
}

var errBodyTooLong = errors.New("the body is too long")

// bodyReader reads one body.
type bodyReader struct {
	h       *HTTP
	r       *http.Request
	control *http.ResponseController
	key     string // of the principal
}

// within bounds the reads that follow; what cannot be bounded is read all the same.
func (b *bodyReader) within(d time.Duration) { _ = b.control.SetReadDeadline(time.Now().Add(d)) }

func (b *bodyReader) read() ([]byte, error) {
	most := b.h.o.MaxBody
	if b.r.ContentLength > most {
		return nil, errBodyTooLong
	}
	b.within(b.h.o.Patience)
	limited := io.LimitReader(b.r.Body, most+1)
	body := make([]byte, 0, min(max(b.r.ContentLength, 512), largeBody)+1)
	body, more, err := b.piece(limited, body, largeBody)
	if err != nil || !more {
		return body, err
	}
	if int64(len(body)) > most {
		return nil, errBodyTooLong
	}
	if err := b.h.bodies.place(b.r.Context(), b.key); err != nil {
		return nil, err
	}
	defer b.h.bodies.leave(b.key)
	end := time.Now().Add(b.h.o.Patience)
	for more {
		b.within(min(b.h.o.pieceTime, time.Until(end)))
		if body, more, err = b.piece(limited, body, len(body)+largeBody); err != nil {
			return nil, err
		}
		if int64(len(body)) > most {
			return nil, errBodyTooLong
		}
	}
	return body, nil
}

// piece reads on until there are more than so many bytes, or the body is over.
func (b *bodyReader) piece(from io.Reader, body []byte, until int) (_ []byte, more bool, err error) {
	for len(body) <= until {
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
		n, err := from.Read(body[len(body):min(cap(body), until+1)])
		body = body[:len(body)+n]
		if errors.Is(err, io.EOF) {
			return body, false, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
	return body, true, nil
}

// discard reads on what a client sends of a body that is too long. It may be lost
// that the client does not see the answer, so no error matters.
func (b *bodyReader) discard() {
	b.within(discardTime)
	_, _ = io.CopyN(io.Discard, b.r.Body, 2*b.h.o.MaxBody)
}
