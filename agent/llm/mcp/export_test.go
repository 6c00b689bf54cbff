package mcp

// Break ends the connection behind the client's back.
func Break(c *Client) error { return c.session.Close() }
