package oauth

// WantsLogin says whether the server has asked for a login that a person can give,
// as far as is known without asking anybody.
func (c *Client) WantsLogin() bool {
	if c.itself() {
		return false
	}
	s, err := c.Status()
	return err == nil && (s.State == Wanted || s.State == Expired || len(s.Wants) > 0)
}
