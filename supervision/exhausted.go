package supervision

import (
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// A start that the system refuses for want of descriptors or processes is no
// fault of the server: what is idle gives way, one connection after the other,
// and the start is tried again after each.

type (
	// makeRoom asks the pool to end an idle connection.
	makeRoom struct {
		from     *kernel.PID
		instance uint64
		request  uint64 // which one of the instance
	}
	// roomMade says that one has ended, or that the wait for it is over; none:
	// nothing is idle.
	roomMade struct {
		instance uint64
		request  uint64 // that it is the answer to
		none     bool
	}
)

// roomWait bounds the wait for the end of an idle connection.
const roomWait = 5 * time.Second

// maxSqueezes bounds the idle connections that end for one start. The system
// counts a start's needs with a margin, several starts may want the same room, and
// the descriptors of a connection are free a moment after its end is told.
const maxSqueezes = 12

func (p *poolActor) onMakeRoom(ctx *kernel.Context, now time.Time, m *makeRoom) {
	lease, actions := p.pool.MakeRoom(now)
	if lease == 0 {
		ctx.Send(m.from, &roomMade{instance: m.instance, request: m.request, none: true})
	} else {
		p.squeezed[lease] = m // before the eviction, which may be over at once
	}
	p.apply(ctx, actions)
}

func (p *poolActor) roomMade(ctx *kernel.Context, lease uint64) {
	if m := p.squeezed[lease]; m != nil {
		delete(p.squeezed, lease)
		ctx.Send(m.from, &roomMade{instance: m.instance, request: m.request})
	}
}

// onExhausted keeps what waits for an instance until there is room for it. Where
// nothing idle is left, or too much has given way in vain, it tells them. No child has had
// the calls in between, so that their time goes on.
func (b *breakerActor) onExhausted(ctx *kernel.Context, in *instance, returned []messages.ReturnedCall, err *messages.Error) {
	if in.squeezed >= maxSqueezes || in.retire || b.leaving != nil {
		b.releaseProbe(in)
		b.publish()
		b.lostContacts(ctx, in, err)
		for _, rc := range returned {
			b.afterLoss(ctx, rc, false, err)
		}
		return
	}
	in.squeezed++
	in.noRoom = err
	in.roomRequest++
	before := in.heldUntil
	in.heldUntil = make(map[uint64]time.Time, len(returned))
	for _, rc := range returned {
		until, again := before[rc.Call.ID]
		if !again {
			until = b.heldUntil(rc.Call)
		}
		in.heldUntil[rc.Call.ID] = until
		b.holdUntil(ctx, rc.Call, until)
	}
	b.publish()
	ctx.After(roomWait, &roomMade{instance: in.n, request: in.roomRequest})
	ctx.Send(b.pool, &makeRoom{from: ctx.Self(), instance: in.n, request: in.roomRequest})
}

func (b *breakerActor) onRoomMade(ctx *kernel.Context, m *roomMade) {
	in := b.instances[m.instance]
	if in == nil || in.phase != phaseFailed || in.noRoom == nil || m.request != in.roomRequest {
		return
	}
	err := in.noRoom
	in.noRoom = nil
	if m.none && !in.retire { // what waits goes elsewhere once that one is gone
		b.releaseProbe(in)
		b.lostContacts(ctx, in, err)
		b.refuseHeldFor(in, err)
	}
	if in.ended {
		b.onEnded(ctx, &messages.ConnectionEnded{Instance: in.n})
	}
}

// refuseHeldFor answers the calls that are held for an instance and that no other would get.
func (b *breakerActor) refuseHeldFor(in *instance, err *messages.Error) {
	var kept, refused []heldCall
	for _, call := range b.held {
		if b.owner(call.Session) == in.owner {
			refused = append(refused, call)
		} else {
			kept = append(kept, call)
		}
	}
	b.held = kept
	for _, call := range refused {
		b.refuse(call.Call, err)
	}
}
