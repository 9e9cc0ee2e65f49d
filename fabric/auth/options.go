//go:build linux && (amd64 || arm64)

package auth

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/nicless/nicless/fabric"
)

// Options are what a link says about keys. The zero value means no keys: no packet is authenticated.
type Options struct {
	Key     string // file of this engine's identity; "": none
	Peers   string // file of the accepted keys; "": Key and ".peers"
	Trust   bool   // a key that is seen first from an address that no line covers is added to the file
	Offered bool   // addresses that no line covers may stay without keys
	Encrypt bool   // what is sealed is also encrypted

	modeGiven bool // auth= was given
}

// Words lists the items that Set takes, for error messages.
const Words = "key=FILE, peers=FILE, trust=first, auth=required, auth=offered and encrypt"

// Set takes one item of a link. It returns false if the item is about something else.
//
//	key=FILE       the file of this engine's private key (nicless key new)
//	peers=FILE     the file of accepted keys (default: the name of the key file and ".peers")
//	trust=first    accept and pin a key that is seen first from an address that no line covers
//	auth=required  refuse engines without keys (the default with key=)
//	auth=offered   accept engines without keys from addresses that no line covers
//	encrypt        encrypt what is sealed, also written encrypt=yes; the other end must say the same
func (o *Options) Set(item string) (mine bool, err error) {
	name, value, has := strings.Cut(item, "=")
	switch name {
	case "key", "peers":
		to := &o.Key
		if name == "peers" {
			to = &o.Peers
		}
		if value == "" {
			return true, fmt.Errorf("%q: the name of a file is needed", item)
		}
		if *to != "" && *to != value {
			return true, fmt.Errorf("%s=%s and %s=%s; a link has one", name, *to, name, value)
		}
		*to = value
	case "trust":
		if value != "first" {
			return true, fmt.Errorf("%q; trust=first is possible", item)
		}
		o.Trust = true
	case "auth":
		if value != "required" && value != "offered" {
			return true, fmt.Errorf("%q; auth=required and auth=offered are possible", item)
		}
		if o.modeGiven && o.Offered != (value == "offered") {
			return true, errors.New("auth=required and auth=offered exclude each other")
		}
		o.Offered, o.modeGiven = value == "offered", true
	case "encrypt":
		if has && value != "yes" {
			return true, fmt.Errorf("%q; encrypt and encrypt=yes are possible", item)
		}
		o.Encrypt = true
	default:
		return false, nil
	}
	return true, nil
}

// Check returns an error if the options do not fit together.
func (o *Options) Check() error {
	if o.Key == "" && *o != (Options{}) {
		return errors.New("peers=, trust=, auth= and encrypt need key=FILE (nicless key new FILE makes one)")
	}
	return nil
}

// Open reads the files. It returns nil if there is no key. log gets the keys that are added, with a limit,
// because strangers can cause these lines, and a warning if no key is accepted; it may be nil.
func (o *Options) Open(log *slog.Logger) (*Party, error) {
	if err := o.Check(); err != nil || o.Key == "" {
		return nil, err
	}
	id, err := LoadIdentity(o.Key)
	if err != nil {
		return nil, err
	}
	if log != nil {
		log = fabric.LimitLog(log)
	}
	file := o.Peers
	if file == "" {
		file = o.Key + ".peers"
	}
	peers, err := OpenPeers(file, o.Trust, log)
	if err != nil {
		return nil, err
	}
	if log != nil && !o.Trust && peers.now.Load().lines == 0 {
		log.Warn(`no keys are accepted: the file of peers does not exist or has no lines; add a line "ADDRESS nicless-public-1 ..." or say trust=first`, "file", file)
	}
	return &Party{Identity: id, Peers: peers, Required: !o.Offered, Encrypt: o.Encrypt}, nil
}
