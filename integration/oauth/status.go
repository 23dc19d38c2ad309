package oauth

import (
	"slices"
	"time"
)

// Status is what is known of the login at one server. It holds no secret.
type Status struct {
	Server string `json:"server"`
	URL    string `json:"url"`
	// State is "logged in", "expired" (only a new login helps), "wanted" (the
	// server has asked for one) or "none".
	State   string     `json:"state"`
	Issuer  string     `json:"issuer,omitempty"`
	Client  string     `json:"clientId,omitempty"`
	Scopes  []string   `json:"scopes,omitempty"`
	Expires *time.Time `json:"expires,omitempty"` // of the access token
	Renewed bool       `json:"renewed"`           // it is renewed without a login
	// Wants are scopes that the server asks for and the login does not have.
	Wants []string `json:"wants,omitempty"`
}

// The states of a login.
const (
	LoggedIn = "logged in"
	Expired  = "expired"
	Wanted   = "wanted"
	None     = "none"
)

// Status says what is known of the login, without asking anybody.
func (c *Client) Status() (*Status, error) {
	c.mu.Lock()
	kept, err := c.now()
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	s := &Status{Server: c.spec.Name, URL: bare(c.server), State: None}
	ch, wanted := c.shelf.readChallenge()
	l := kept.Login
	if l == nil {
		if wanted {
			s.State, s.Wants = Wanted, ch.Scopes
		}
		return s, nil
	}
	s.State, s.Issuer, s.Client, s.Scopes, s.Renewed = LoggedIn, l.Issuer, l.Client.ID, l.Granted, l.Refresh != "" || c.itself()
	if !l.Expires.IsZero() {
		s.Expires = &l.Expires
	}
	if !s.Renewed && !l.fresh(time.Now()) {
		s.State = Expired
	}
	if wanted {
		s.Wants = slices.DeleteFunc(ch.Scopes, func(scope string) bool { return slices.Contains(l.Requested, scope) })
		if len(s.Wants) == 0 {
			s.State = Expired // the server has asked for a login since
		}
	}
	return s, nil
}
