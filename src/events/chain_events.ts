/** Events of routes, splits and resolvers. Pure. @module */

import type { NewEvent } from "../base/mod.ts";
import {
  type ChainPart,
  type ChainRoute,
  sameContent,
  type Snapshot,
  upstreamLabel,
} from "../snapshot/mod.ts";

/** Changes of one chain that are listed. */
const SHOWN = 10;

export function chainEvents(before: Snapshot, after: Snapshot): NewEvent[] {
  const events: NewEvent[] = [];
  for (const [key, chain] of Object.entries(after.chains)) {
    const was = before.chains[key];
    if (!was || was.version === chain.version) continue;
    const upstream = Object.values(after.upstreams).find((one) => one.chain === key);
    const name = upstream?.name ?? key;
    const subject = upstream ? upstreamLabel(upstream) : key;
    const labels = { name, label: subject, datacenter: after.datacenter };
    const texts = [...routeTexts(was, chain, labels), ...resolverTexts(was, chain, labels)];
    const shown = texts.length > SHOWN
      ? [...texts.slice(0, SHOWN), `and ${texts.length - SHOWN} more changes of ${subject}`]
      : texts;
    for (const text of shown) events.push({ kind: "chain", subject, text });
  }
  for (const [key, { hosts, version }] of Object.entries(after.edges)) {
    const was = before.edges[key];
    if (!was || was.version === version || sameContent(was.hosts, hosts)) continue;
    const names = hosts.flatMap((host) => host.names);
    const text = `hosts of ${key} changed: ${names.slice(0, SHOWN).join(", ")}`;
    events.push({ kind: "chain", subject: key, text });
  }
  return events;
}

interface Labels {
  /** Name of the upstream's service. */
  readonly name: string;
  readonly datacenter: string;
}

/** With the upstream as texts name it: each text is shown without its subject. */
interface ChainLabels extends Labels {
  readonly label: string;
}

function routeTexts(was: ChainPart, now: ChainPart, labels: ChainLabels): string[] {
  const { label } = labels;
  const texts: string[] = [];
  const old = new Map(was.routes.map((route) => [route.name, route]));
  for (const route of now.routes) {
    const before = old.get(route.name);
    old.delete(route.name);
    if (!before) {
      texts.push(`route ${routeName(route, label)} added: ${splitsText(now, route, labels)}`);
      continue;
    }
    const [from, to] = [sharesOf(was, before, labels), sharesOf(now, route, labels)];
    const of = now.routes.length > 1 ? `, route ${routeName(route)}` : "";
    if (!sameContent(Object.fromEntries(from), Object.fromEntries(to))) {
      texts.push(`splitter ${label}${of}: ${shareChanges(from, to)}`);
    }
    if (!sameContent(before.match, route.match)) {
      const matches = `matches ${matchText(route)}, was ${matchText(before)}`;
      texts.push(`route ${route.name} of ${label} ${matches}`);
    }
    const rest = ({ plugins, hash, splits, service }: ChainRoute) => ({
      plugins,
      hash,
      service,
      splits: Object.fromEntries(
        splits.map(({ resolver, plugins }) => [resolver, plugins] as const)
          .filter(([, plugins]) => plugins !== undefined),
      ),
    });
    if (!sameContent(rest(before), rest(route))) {
      const names = changedPlugins(before, route);
      texts.push(`settings of route ${routeName(route, label)} changed${names && `: ${names}`}`);
    }
  }
  for (const route of old.values()) texts.push(`route ${routeName(route, label)} removed`);
  const order = (chain: ChainPart) => chain.routes.map(({ name }) => name);
  if (texts.length === 0 && !sameContent(order(was), order(now))) {
    texts.push(`order of routes of ${label}: ${order(now).slice(0, SHOWN).join(", ")}`);
  }
  return texts;
}

/** `label`: of its upstream; absent: the text names that already. */
function routeName(route: ChainRoute, label?: string): string {
  const name = label === undefined ? route.name : `${route.name} of ${label}`;
  return route.match ? `${name} (${matchText(route)})` : name;
}

/** Without header values, which may be tokens. */
function matchText({ match }: ChainRoute): string {
  if (!match) return "everything";
  const { path, methods, headers, query } = match;
  const words = [
    methods.join("|"),
    path
      ? `${path.kind === "regex" ? "~" : ""}${path.value}${path.kind === "prefix" ? "*" : ""}`
      : "",
    ...headers.map(({ name }) => `header ${name}`),
    ...query.map(({ name }) => `query ${name}`),
  ];
  return words.filter((word) => word !== "").join(" ") || "everything";
}

/** Percent of a route's requests by the name of the target. */
function sharesOf(chain: ChainPart, { splits }: ChainRoute, labels: Labels): Map<string, number> {
  const whole = splits.reduce((sum, { weight }) => sum + weight, 0);
  const shares = new Map<string, number>();
  for (const { resolver, weight } of splits) {
    const [primary = resolver] = chain.resolvers[resolver]?.targets ?? [];
    const name = targetName(primary, labels);
    shares.set(name, (shares.get(name) ?? 0) + weight / whole * 100);
  }
  return shares;
}

function splitsText(chain: ChainPart, route: ChainRoute, labels: Labels): string {
  return [...sharesOf(chain, route, labels)].map(([name, share]) => `${name} ${percent(share)}`)
    .join(", ");
}

function shareChanges(from: ReadonlyMap<string, number>, to: ReadonlyMap<string, number>): string {
  const names = [...new Set([...to.keys(), ...from.keys()])];
  return names.filter((name) => from.get(name) !== to.get(name))
    .map((name) => `${name} ${percent(from.get(name) ?? 0)} to ${percent(to.get(name) ?? 0)}`)
    .join(", ");
}

function percent(share: number): string {
  return `${Math.round(share * 100) / 100} %`;
}

function changedPlugins(before: ChainRoute, after: ChainRoute): string {
  const names = new Set([...Object.keys(before.plugins), ...Object.keys(after.plugins)]);
  return [...names].filter((name) => !sameContent(before.plugins[name], after.plugins[name]))
    .join(", ");
}

function resolverTexts(was: ChainPart, now: ChainPart, labels: ChainLabels): string[] {
  const texts: string[] = [];
  for (const [key, resolver] of Object.entries(now.resolvers)) {
    const before = was.resolvers[key];
    if (!before || sameContent(before, resolver)) continue;
    const target = targetName(key, labels);
    const of = `resolver ${target === labels.label ? target : `${target} of ${labels.label}`}`;
    const names = (targets: readonly string[]) =>
      targets.map((target) => targetName(target, labels)).join(", then ");
    if (!sameContent(before.targets, resolver.targets)) {
      texts.push(`${of}: ${names(resolver.targets)}, was ${names(before.targets)}`);
    }
    if (!sameContent(before.balancing, resolver.balancing)) {
      texts.push(`${of}: balancing ${before.balancing.kind} to ${resolver.balancing.kind}`);
    }
    if (!sameContent(before.outlier, resolver.outlier)) texts.push(`${of}: passive health changed`);
  }
  return texts;
}

/**
 * `v2` for a subset of the upstream's service, else `v2.api`, with the datacenter where it is another one.
 * Consul's ids are `v2.api.default.default.dc1`, after the upstream's.
 */
export function targetName(key: string, { name, datacenter }: Labels): string {
  const id = key.slice(key.lastIndexOf("#") + 1);
  const parts = id.split(".");
  if (parts.length < 4) return id;
  const [namespace, partition, place] = parts.splice(-3);
  const own = parts.length > 1 && parts.at(-1) === name ? parts.slice(0, -1) : parts;
  const elsewhere = [
    ...namespace === "default" ? [] : [namespace],
    ...partition === "default" ? [] : [partition],
    ...place === datacenter ? [] : [place],
  ];
  return own.join(".") + (elsewhere.length > 0 ? ` (${elsewhere.join(", ")})` : "");
}
