/** The pairs of a benchmark, started when a part first asks for them. @module */

import type { Subject } from "./cell.ts";
import {
  type ConsulMesh,
  createConsulMesh,
  envoyInboundSide,
  envoyOutboundSide,
  nginxInbound,
  nginxOutbound,
  type Pair,
  posternInbound,
  posternOutbound,
  type StartInbound,
  type StartOutbound,
  startPair,
  yardstickInbound,
  yardstickOutbound,
} from "./pairs.ts";
import { BEFORE, ENVOY, POSTERN, YARDSTICK } from "./report.ts";
import type { Site } from "./site.ts";

export interface Pairs {
  /** Each program as it comes. */
  usual(): Promise<Subject[]>;
  /** No handshake can be resumed: Postern's sides are each joined to an nginx that does not. */
  full(): Promise<Subject[]>;
  /** The pairs that resume. */
  resuming(): Promise<Subject[]>;
  /** Pairs of their own, started one after the other; the caller stops each. */
  fresh(): AsyncIterable<Pair>;
  postern(upstreams?: number): Promise<Pair>;
  close(): Promise<void>;
}

const BOTH = ["inbound", "outbound"] as const;
const QUIET = { args: ["-log-level", "warn"] } as const;

export function openPairs(
  site: Site,
  peers: readonly string[],
  /** Also the relay whose instructions are known. */
  options: {
    readonly yardstick: boolean;
    /** The executable of another build: measured beside this one. */
    readonly before?: string;
  },
): Pairs {
  const open = new Map<string, Pair>();
  let mesh: ConsulMesh | undefined;
  const consul = async () => mesh ??= await createConsulMesh(site);
  const once = async (key: string, start: () => Promise<Pair>): Promise<Pair> => {
    const pair = open.get(key) ?? await start();
    open.set(key, pair);
    return pair;
  };
  const has = (name: string) => peers.includes(name);
  const startEnvoy = (resumption: boolean) =>
    startPair(site, ENVOY, {
      inbound: envoyInboundSide({ resumption }),
      outbound: envoyOutboundSide({ resumption }),
    });
  const startNginx = () =>
    startPair(site, "nginx", { inbound: nginxInbound(), outbound: nginxOutbound() });
  const startPostern = (settings: { args?: readonly string[]; moreUpstreams?: number } = {}) =>
    startPair(site, POSTERN, {
      inbound: posternInbound(settings),
      outbound: posternOutbound(settings),
    });
  const subject = (pair: Pair, name = pair.name, sides: Subject["sides"] = BOTH): Subject => ({
    name,
    pair,
    sides,
  });
  const { before } = options;
  const older = { command: before === undefined ? [] : [before] };
  const startBefore = () =>
    startPair(site, BEFORE, { inbound: posternInbound(older), outbound: posternOutbound(older) });
  const startYardstick = () =>
    startPair(site, YARDSTICK, { inbound: yardstickInbound(), outbound: yardstickOutbound() });
  /** Each side joined to an nginx that does not resume. */
  const halves = async (name: string, inbound: StartInbound, outbound: StartOutbound) => [
    subject(
      await once(
        `${name} inbound`,
        () => startPair(site, name, { inbound, outbound: nginxOutbound() }),
      ),
      name,
      ["inbound"],
    ),
    subject(
      await once(
        `${name} outbound`,
        () => startPair(site, name, { inbound: nginxInbound(), outbound }),
      ),
      name,
      ["outbound"],
    ),
  ];
  const pairs: Pairs = {
    async usual() {
      const subjects: Subject[] = [];
      if (has("postern")) subjects.push(subject(await pairs.postern()));
      if (before) subjects.push(subject(await once(BEFORE, startBefore)));
      if (options.yardstick) subjects.push(subject(await once(YARDSTICK, startYardstick)));
      if (has("envoy")) subjects.push(subject(await once("envoy", () => startEnvoy(true))));
      if (has("nginx")) subjects.push(subject(await once("nginx", startNginx)));
      if (has("consul")) {
        subjects.push(
          subject(await once("built-in", async () => (await consul()).startBuiltIn())),
        );
      }
      return subjects;
    },
    async full() {
      const subjects: Subject[] = [];
      if (has("postern")) {
        subjects.push(...await halves(POSTERN, posternInbound(), posternOutbound()));
        const [inbound, outbound] = [posternInbound(QUIET), posternOutbound(QUIET)];
        subjects.push(...await halves(`${POSTERN} -log-level warn`, inbound, outbound));
      }
      if (before) {
        subjects.push(...await halves(BEFORE, posternInbound(older), posternOutbound(older)));
      }
      if (options.yardstick) {
        subjects.push(...await halves(YARDSTICK, yardstickInbound(), yardstickOutbound()));
      }
      if (has("envoy")) subjects.push(subject(await once("envoy full", () => startEnvoy(false))));
      const others = (await pairs.usual()).filter(({ name }) =>
        ![POSTERN, BEFORE, ENVOY, YARDSTICK].includes(name)
      );
      return [...subjects, ...others];
    },
    async resuming() {
      const subjects: Subject[] = [];
      if (has("postern")) {
        subjects.push(subject(await pairs.postern()));
        const quiet = await once("postern quiet", () => startPostern(QUIET));
        subjects.push(subject(quiet, `${POSTERN} -log-level warn`));
      }
      if (before) subjects.push(subject(await once(BEFORE, startBefore)));
      if (options.yardstick) subjects.push(subject(await once(YARDSTICK, startYardstick)));
      if (has("envoy")) subjects.push(subject(await once("envoy", () => startEnvoy(true))));
      return subjects;
    },
    async *fresh() {
      if (has("postern")) yield await startPostern();
      if (before) yield await startBefore();
      if (has("postern") && has("consul")) {
        yield { ...await (await consul()).startPostern(), name: `${POSTERN} on Consul` };
      }
      if (has("envoy")) yield await startEnvoy(true);
      if (has("nginx")) yield await startNginx();
      if (has("consul")) yield await (await consul()).startBuiltIn();
    },
    postern: (upstreams = 1) =>
      once(
        `postern ${upstreams}`,
        () => startPostern({ moreUpstreams: upstreams - 1 }),
      ),
    async close() {
      await Promise.all([...open.values()].map((pair) => pair.stop()));
      await mesh?.close();
    },
  };
  return pairs;
}
