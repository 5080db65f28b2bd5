package kube

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"lameduck/netns/takeover"
)

// Service names who shall stand in for this pod.
type Service struct {
	// Target is the place in takeover.Options.Targets that the peers are for.
	Target int
	// Port is the application port that they stand in for; 0: every one.
	Port uint16
	// Name is a Service's, in the own namespace. Empty: every Service that this pod belongs to, if its members are
	// interchangeable: no headless Service's, and no StatefulSet's.
	Name string
}

func (s Service) String() string {
	if s.Name == "" {
		return "auto"
	}
	return "service/" + s.Name
}

// Options says what a Discovery asks for, and who hears of it. The functions are called from several goroutines.
type Options struct {
	// Find tells how the API server is reached. It is called when a drain begins.
	Find func() (Account, error)
	Pod  Pod
	// Addresses are this pod's.
	Addresses func() ([]netip.Addr, error)
	// Envoys names the sources' slices; the zero Query: none.
	Envoys   Query
	Services []Service
	// SetEnvoys hears the addresses of all Envoys, at each change.
	SetEnvoys func([]netip.Addr)
	// SetPeers hears a target's peers, at each change.
	SetPeers func(target int, peers []takeover.Peer)
	// Degrade hears what cannot be had, and what follows.
	Degrade func(format string, args ...any)
	Logger  *slog.Logger
}

// Discovery finds sources and peers during a drain. Before, it does nothing.
type Discovery struct {
	options Options
	logger  *slog.Logger
	me      self

	build  func(Account) (*client, error)
	once   sync.Once // builds client
	client *client
	err    error

	mu    sync.Mutex
	peers map[int][]*serviceMembers // by target
}

// serviceMembers are the peers that one Service gives.
type serviceMembers struct {
	membership
	peers []takeover.Peer
}

// New returns a Discovery that has asked for nothing yet.
func New(o Options) *Discovery {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Discovery{options: o, logger: o.Logger, build: connect, peers: map[int][]*serviceMembers{}}
}

// Asks tells whether there is anything to ask for, Events aside.
func (d *Discovery) Asks() bool { return d.options.Envoys != Query{} || len(d.options.Services) > 0 }

// connect builds the client at its first use.
func (d *Discovery) connect() (*client, Account, error) {
	account, err := d.options.Find()
	if err != nil {
		return nil, account, err
	}
	d.once.Do(func() { d.client, d.err = d.build(account) })
	return d.client, account, d.err
}

// Run follows sources and peers until ctx ends, from the trigger on. What fails is told, and is no error.
func (d *Discovery) Run(ctx context.Context) error {
	if !d.Asks() {
		return nil
	}
	c, account, err := d.connect()
	if err != nil {
		d.unreachable(err)
		return nil
	}
	defer c.close()
	d.me = self{Pod: d.options.Pod}
	if d.me.addresses, err = d.options.Addresses(); err != nil {
		d.logger.Warn("own addresses cannot be read", "error", err)
	}
	var work sync.WaitGroup
	if q := d.options.Envoys; q != (Query{}) {
		work.Go(func() { d.followEnvoys(ctx, c, q) })
	}
	for _, s := range d.options.Services {
		if s.Name == "" {
			work.Go(func() { d.followAuto(ctx, c, account.Namespace, s) })
		} else {
			work.Go(func() { d.followService(ctx, c, account.Namespace, s, s.Name, nil, "") })
		}
	}
	work.Wait()
	return nil
}

func (d *Discovery) unreachable(err error) {
	if q := d.options.Envoys; q != (Query{}) {
		d.degradeEnvoys(q, err)
	}
	for _, s := range d.options.Services {
		d.degradePeers(s, err)
	}
}

func (d *Discovery) degradeEnvoys(q Query, err error) {
	d.options.Degrade("--envoy-slices %s/%s cannot be had (%v): every remote address counts as Envoy", q.Namespace, q.Selector, err)
}

func (d *Discovery) degradePeers(s Service, err error) {
	d.options.Degrade("the endpoints of --relay-to %s cannot be had (%v): they are no peers", s, err)
}

// followEnvoys follows the sources.
func (d *Discovery) followEnvoys(ctx context.Context, c *client, q Query) {
	f := feed{client: c, query: q}
	f.problem = func(err error, known bool) {
		if known {
			d.options.Degrade("changes of --envoy-slices %s/%s are no longer heard (%v)", q.Namespace, q.Selector, err)
			return
		}
		d.degradeEnvoys(q, err)
	}
	f.changed = func(all map[string]*endpointSlice) {
		var found []netip.Addr
		for _, s := range all {
			for i := range s.Endpoints {
				found = append(found, s.Endpoints[i].addresses()...) // those that end, too: they still forward
			}
		}
		if len(found) == 0 {
			d.options.Degrade("--envoy-slices %s/%s: no EndpointSlice there has an address; those that were known count as Envoy, or every remote one", q.Namespace, q.Selector)
			return
		}
		slices.SortFunc(found, netip.Addr.Compare)
		d.options.SetEnvoys(slices.Compact(found))
	}
	f.run(ctx)
}

// followService follows the peers of one Service. What is known already is passed on: the slices, and their version.
func (d *Discovery) followService(ctx context.Context, c *client, namespace string, s Service, name string, known map[string]*endpointSlice, version string) {
	members := d.join(s)
	f := feed{client: c, query: Query{namespace, serviceLabel + "=" + name}, version: version}
	f.problem = func(err error, known bool) {
		if known {
			d.options.Degrade("changes of the endpoints of --relay-to %s are no longer heard (%v)", s, err)
			return
		}
		d.degradePeers(s, err)
	}
	f.changed = func(all map[string]*endpointSlice) { d.setPeers(s, members, all) }
	if known != nil {
		f.slices = make(map[string]*endpointSlice, len(known))
		for _, slice := range known {
			if err := f.put(slice); err != nil {
				d.degradePeers(s, err)
				return
			}
		}
		f.changed(f.slices)
	}
	f.run(ctx)
}

// join makes room for a Service's peers among those of its target.
func (d *Discovery) join(s Service) *serviceMembers {
	members := new(serviceMembers)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.peers[s.Target] = append(d.peers[s.Target], members)
	return members
}

func (d *Discovery) setPeers(s Service, members *serviceMembers, all map[string]*endpointSlice) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if m := membershipOf(all, d.me); m.listed || !members.listed {
		members.membership = m // what was known stays when this pod's endpoint goes before it does
	}
	members.peers = peersOf(all, d.me, members.membership, s.Port)
	var sum []takeover.Peer
	for _, m := range d.peers[s.Target] {
		sum = append(sum, m.peers...)
	}
	d.options.SetPeers(s.Target, choose(sum, d.me))
}

// followAuto finds the Services that this pod belongs to by one LIST of the namespace, and follows each.
func (d *Discovery) followAuto(ctx context.Context, c *client, namespace string, s Service) {
	listed, done := context.WithCancel(ctx)
	defer done()
	var services map[string]map[string]*endpointSlice
	f := feed{client: c, query: Query{Namespace: namespace}}
	f.problem = func(err error, _ bool) { d.degradePeers(s, err) }
	f.changed = func(all map[string]*endpointSlice) {
		services = byService(all)
		done() // before a watch of the whole namespace
	}
	f.run(listed)
	if services == nil {
		return
	}
	names, why := mine(services, d.me)
	if len(names) == 0 {
		d.options.Degrade("--relay-to auto: %s; there are no peers", why)
		return
	}
	var work sync.WaitGroup
	for _, name := range names {
		work.Go(func() { d.followService(ctx, c, namespace, s, name, services[name], f.version) })
	}
	work.Wait()
}

func byService(all map[string]*endpointSlice) map[string]map[string]*endpointSlice {
	services := map[string]map[string]*endpointSlice{}
	for name, s := range all {
		if services[s.service()] == nil {
			services[s.service()] = map[string]*endpointSlice{}
		}
		services[s.service()][name] = s
	}
	delete(services, "")
	return services
}

// mine names the Services whose members can stand in for each other and of which this pod is one, or tells why there are none.
func mine(services map[string]map[string]*endpointSlice, me self) (names []string, why string) {
	var headless []string
	for name, all := range services {
		m := membershipOf(all, me)
		switch {
		case m.addressed:
			return nil, fmt.Sprintf("this pod has a name of its own in the headless Service %s, as a StatefulSet's member has: nobody can stand in for it, unless service/NAME says so", name)
		case m.listed && isHeadless(all):
			headless = append(headless, name)
		case m.listed:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	slices.Sort(headless)
	if len(headless) > 0 {
		return names, fmt.Sprintf("only headless Services list this pod (%s), and their members are not interchangeable, unless service/NAME says so",
			strings.Join(headless, ", "))
	}
	return names, "no EndpointSlice of the namespace lists this pod"
}

func isHeadless(all map[string]*endpointSlice) bool {
	for _, s := range all {
		if s.headless() {
			return true
		}
	}
	return false
}
