package config

import (
	"net/url"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/metamcp/metamcp/messages"
)

const (
	grantCode   = "authorization_code"
	grantClient = "client_credentials"
	maxPort     = 65535
)

// oauthNames are the members of oauth.
var oauthNames = []string{"clientId", "clientSecret", "privateKey", "clientMetadataUrl", "issuer", "scopes", "redirectPort", "grant"}

// oauth reads the object of that name.
func (e *entry) oauth(v *hujson.Value) {
	obj, ok := v.Value.(*hujson.Object)
	if !ok {
		e.mismatch(e.doc, "oauth", v, "an object")
		return
	}
	o := &messages.OAuth{}
	for i := range obj.Members {
		if m := &obj.Members[i]; m.Value.Value.Kind() != 'n' {
			e.oauthMember(o, memberName(m), m)
		}
	}
	switch {
	case o.ClientSecret != "" && o.PrivateKey != "":
		e.bad(e.doc, v, "keep the one that the authorization server knows", "oauth: it has both a clientSecret and a privateKey")
	case o.ClientID == "" && (o.ClientSecret != "" || o.PrivateKey != ""):
		e.bad(e.doc, v, "write the clientId to which it belongs", "oauth: it has a secret, but no clientId")
	case o.ClientCredentials && o.ClientSecret == "" && o.PrivateKey == "":
		e.bad(e.doc, v, "give clientId and clientSecret, or privateKey", "oauth: the grant %s needs the credentials of a client", grantClient)
	}
	e.spec.OAuth, e.oauthAt = o, v
}

func (e *entry) oauthMember(o *messages.OAuth, name string, m *hujson.ObjectMember) {
	path, v := "oauth."+shorten(name), &m.Value
	switch name {
	case "clientId":
		o.ClientID, _ = e.str(e.doc, path, v, e.ex)
	case "clientSecret":
		o.ClientSecret, _ = e.str(e.doc, path, v, e.ex)
	case "privateKey":
		o.PrivateKey, _ = e.str(e.doc, path, v, e.ex)
	case "clientMetadataUrl":
		o.MetadataURL = e.oauthURL(path, v)
		if u, err := url.Parse(o.MetadataURL); o.MetadataURL != "" && (err != nil || u.Scheme != "https" || strings.Trim(u.Path, "/") == "") {
			e.bad(e.doc, v, "it has to be one with https and a path, as the authorization server fetches it", "%s: it cannot be the id of a client", path)
		}
	case "issuer":
		o.Issuer = e.oauthURL(path, v)
	case "scopes":
		o.Scopes = e.stringList(e.doc, path, v, e.ex)
		for _, s := range o.Scopes {
			if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
				e.bad(e.doc, v, "write each scope as a string of its own", "%s: %s is no scope", path, quote(s))
			}
		}
	case "redirectPort", "callbackPort": // the second is Claude Code's
		if n, ok := e.ranged(path, v, 1, maxPort, ""); ok {
			o.RedirectPort = int(n)
		}
	case "grant":
		text, ok := e.str(e.doc, path, v, e.ex)
		switch {
		case !ok:
		case text == grantCode, text == grantClient:
			o.ClientCredentials = text == grantClient
		default:
			e.bad(e.doc, v, suggestion(text, []string{grantCode, grantClient}), "%s: expected %s or %s, found %s", path, grantCode, grantClient, quote(text))
		}
	default:
		e.warn(&m.Name, suggestion(name, oauthNames), "%s is not known and ignored", path)
	}
}

func (e *entry) oauthURL(path string, v *hujson.Value) string {
	text, ok := e.str(e.doc, path, v, e.ex)
	if ok && !isHTTPURL(text) {
		e.bad(e.doc, v, "", "%s: expected an absolute http or https URL", path)
	}
	return text
}
