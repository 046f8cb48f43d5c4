/** The life of a proxy process: finds its source, serves, reloads, drains, ends. @module */

import { type Clock, type Log, messageOf, sleep } from "../../base/mod.ts";
import type { Reloaded } from "../../admin/mod.ts";
import type { FetchCertificate, PublishEffect } from "../../proxy/mod.ts";
import type { ListeningSocket } from "../../net/mod.ts";
import { troublesOf } from "../../source/mod.ts";
import type { Refusal, Snapshot } from "../../snapshot/mod.ts";
import type { PlaneSockets, SystemdSockets } from "./activation.ts";
import { type BindRetry, createBindRetry, startHeartbeat } from "./plane_checks.ts";
import type { Handover, Inheritance, OfferedSocket } from "./handover.ts";
import { resumedState, stateToHand } from "./handed_state.ts";
import type { Notifier } from "./notify.ts";
import type { DataPlane, PlaneOptions } from "../workers/plane.ts";
import { Readiness } from "./readiness.ts";
import type { ProxyOptions } from "../flags/proxy_options.ts";
import type { ProxyControl } from "./control.ts";

/**
 * Two processes accept for this long. The new one runs code that is not compiled yet and has no connections
 * to upstreams: alone, it would be slow with the first connections, which come all at once.
 */
const TOGETHER_MS = 1_000;

/** After SIGTERM the proxy serves on for this time and then ends at once. */
export interface ShutdownGrace {
  readonly ms: number;
  /** Callers from the mesh are asked to leave meanwhile; new ones are served. */
  readonly drainInbound: boolean;
}

type Settings = "ready" | "drainTimeoutMs" | "stopTimeoutMs" | "settleMs";

export interface ProxyProcessOptions extends Pick<ProxyOptions, Settings> {
  readonly clock: Clock;
  readonly log: Log;
  readonly notifier: Notifier;
  /** Number of data paths; all of them must answer. */
  readonly paths: number;
  /** Takes the place of the settle time and the drain at the end. */
  readonly grace?: ShutdownGrace;
  /** `onWaiting` is called for each failure while the agent does not answer. */
  findControl(hooks: {
    readonly signal: AbortSignal;
    onWaiting(reason: () => string): Promise<void>;
  }): Promise<ProxyControl>;
  readonly systemd: SystemdSockets;
  /** Absent: sockets stay with this process. */
  readonly handover?: Pick<Handover, "hasPredecessor" | "inherit" | "offer" | "close">;
  createPlane(
    control: ProxyControl,
    fetchCertificate: FetchCertificate,
    before: PlaneSockets & Pick<PlaneOptions, "cells">,
  ): DataPlane;
  /** Describes another proxy on this machine with the same id in Consul. Never rejects. */
  findRival(proxyId: string): Promise<string | undefined>;
  /** `undefined`: none is wanted. `inherited`: sockets of servers of the process before. */
  openAdmin(sockets: PlaneSockets): Promise<{ close(): Promise<void> } | undefined>;
  /** Copies of the sockets of the admin server and of metrics. */
  serverSockets(): readonly ListeningSocket[];
  /** Another process has them: nothing more is accepted. */
  leaveServers(): void;
  /** Called when this snapshot is in force. */
  onInForce(snapshot: Snapshot, effects: readonly PublishEffect[]): void;
  /** Called when the proxy is ready for the first time: memory of the start can be released. */
  onFirstReady(): void;
}

/** The parts that exist once the control is found. */
type Parts = ProxyControl & { readonly plane: DataPlane };
/** `registered` resolves when the proxy's own registration is removed, or there is none. */
type Serving = Parts & { readonly registered: Promise<void> };

export class ProxyProcess {
  readonly readiness: Readiness;
  readonly #options: ProxyProcessOptions;
  readonly #ending = new AbortController();
  readonly #servingBegan = new AbortController();
  /** New callers should not come any more. */
  readonly #leaving = new AbortController();
  readonly #stopped = Promise.withResolvers<undefined>();
  readonly #hurried = Promise.withResolvers<void>();
  readonly #tookOver = Promise.withResolvers<void>();
  readonly #graceOver = Promise.withResolvers<void>();
  /** Consul marks the proxy as leaving, or has no entry of it. */
  readonly #left = Promise.withResolvers<void>();
  #admin: ReturnType<ProxyProcessOptions["openAdmin"]> | undefined;
  #waitingFor: () => string = () => "the first answer of Consul";
  #parts: Parts | undefined;
  #binding: BindRetry | undefined;
  /** Resolves when the plane has decided about the newest snapshot. */
  #applying = Promise.resolve();
  /** The newest snapshot until it is in force or refused: its listeners count for readiness. */
  #coming: Snapshot | undefined;
  #inherited: Inheritance | undefined;
  #takenBy: number | undefined;
  /** Another process has the sockets. */
  readonly #handedOver = new AbortController();
  #canReload = false;
  #wasReady = false;
  #draining = false;
  /** New callers are still served, although they should not come any more. */
  #settling = false;
  #exitCode = 0;

  constructor(options: ProxyProcessOptions) {
    const { clock, log } = options;
    this.#options = options;
    this.readiness = new Readiness({
      clock,
      log,
      wanted: options.ready,
      signal: this.#ending.signal,
      facts: () => {
        const status = this.#parts?.source.status();
        const waitingFor = status ? status.waitingFor.join(", ") : this.#waitingFor();
        const [refusal] = this.refused;
        return {
          draining: this.#draining || this.#settling,
          snapshot: this.snapshot && (this.#coming ?? this.snapshot),
          refusal: refusal?.reason,
          waitingFor: waitingFor || "the first snapshot",
          warming: status?.warming ?? [],
          unheard: status ? troublesOf(status) : [],
          rival: this.#binding?.rival() ?? "",
        };
      },
      plane: () => this.#parts?.plane,
      onChange: (reasons) => this.#reportReadiness(reasons),
    });
  }

  get parts(): Parts | undefined {
    return this.#parts;
  }

  /** The snapshot in force. */
  get snapshot(): Snapshot | undefined {
    return this.#parts?.plane.rollout.published;
  }

  /** Why the newest snapshot is not in force. */
  get refused(): readonly Refusal[] {
    return this.#parts?.plane.rollout.refused ?? [];
  }

  get draining(): boolean {
    return this.#draining;
  }

  /** The process that accepts in place of this one. */
  get takenBy(): number | undefined {
    return this.#takenBy;
  }

  /** The process before still serves in place of this one. */
  get isHeld(): boolean {
    return this.#inherited !== undefined;
  }

  /** Ends the process in order: {@link run} settles and drains, or waits for its grace period. */
  stop({ grace = true }: { readonly grace?: boolean } = {}): void {
    this.#stopped.resolve(undefined);
    if (!grace) this.#graceOver.resolve();
  }

  /** Ends every wait after {@link stop}. */
  hurry(): void {
    this.#hurried.resolve();
  }

  /** Accepts no new connections, or only asks callers from the mesh to leave; the process stays. */
  drainListeners(which: "all" | "inbound" = "all"): void {
    this.#leaving.abort();
    // New callers are still served: readiness does not change.
    if (which === "inbound") return this.#parts?.plane.drainInbound();
    this.#draining = true;
    this.#parts?.plane.drain(this.#options.drainTimeoutMs).catch((error) =>
      this.#options.log.error("drain failed", { error: messageOf(error) })
    );
  }

  /** Runs from start to end; returns the exit code. Rejects when the proxy cannot start. */
  async run(): Promise<number> {
    const starting = this.#start();
    const control = await Promise.race([starting, this.#stopped.promise]);
    if (!control) {
      this.#ending.abort();
      const left = starting.then(({ agent }) => agent?.leave?.(), () => {});
      await Promise.race([left, this.#hurried.promise]);
      await this.#closeAdmin();
      this.#options.log.info("stopped before Consul was reached");
      return 0;
    }
    const serving = await this.#serve(control);
    await this.#stopped.promise;
    await this.#drain(serving);
    await this.#end(serving);
    return this.#exitCode;
  }

  #start(): Promise<ProxyControl> {
    return this.#options.findControl({
      signal: this.#ending.signal,
      // The admin server answers liveness probes meanwhile.
      onWaiting: async (reason) => {
        this.#waitingFor = reason;
        // The process before answers at the same address.
        if (!this.#options.handover?.hasPredecessor) await this.#openAdmin();
      },
    });
  }

  async #serve(control: ProxyControl): Promise<Serving> {
    const { clock, log, notifier, paths, systemd } = this.#options;
    const { source } = control;
    const { signal } = this.#ending;
    const inherited = this.#inherited = await this.#inherit(control);
    const before = (wanted: OfferedSocket["use"]) =>
      inherited?.sockets.filter(({ use }) => use === wanted);
    if (inherited) systemd.replace(before("kept") ?? []);
    const plane = this.#options.createPlane(control, async (request) => {
      const available = await source.fetchCertificate(request);
      // The workers need the snapshot with the certificate before the answer.
      await this.#applying;
      return available;
    }, {
      ...systemd.socketsFor("listener", before("listener")),
      cells: inherited?.state && resumedState(inherited.state, this.#options).cells,
    });
    this.#parts = { ...control, plane };
    if (this.#draining) this.drainListeners();
    if (!inherited) await this.#openAdmin();
    const onUsed = (upstreams: readonly string[]) => source.used(upstreams);
    notifier.startWatchdog(startHeartbeat({ clock, plane, paths, onUsed, signal }));
    const onTried = () => this.readiness.watch();
    const findRival = () => this.#options.findRival(control.proxyId);
    const binding = createBindRetry({ clock, log, plane, signal, onTried, findRival });
    this.#binding = binding;
    source.start((snapshot) => {
      this.#coming = snapshot;
      const decided = plane.rollout.apply(snapshot);
      const applied = this.#applying = decided.then(async () => {
        // A later snapshot looks by itself.
        if (applied !== this.#applying) return;
        this.#coming = undefined;
        await binding.look();
      });
      return decided.then(() => this.#inForce(plane, snapshot));
    }, (error) => this.#failed(error));
    plane.rollout.onRetried = () => {
      const inForce = this.#inForce(plane);
      if (inForce) source.retried(inForce);
      void binding.look(); // A listener may have been opened.
    };
    const registered = this.#keepRegistered(control);
    this.#canReload = true;
    return { ...control, plane, registered };
  }

  #inForce(plane: DataPlane, wanted = plane.rollout.taken): Snapshot | undefined {
    const { rollout } = plane;
    const { published, taken } = rollout;
    if (!published || taken !== wanted) return undefined;
    this.#options.systemd.acceptLater(plane, this.#options.clock);
    this.#options.onInForce(published, rollout.takeEffects());
    return published;
  }

  async #inherit({ agent }: ProxyControl): Promise<Inheritance | undefined> {
    try {
      return await this.#options.handover?.inherit();
    } catch (error) {
      await Promise.race([agent?.leave?.(), this.#hurried.promise]);
      agent?.close();
      throw error;
    }
  }

  async #keepRegistered(control: ProxyControl): Promise<void> {
    const { log } = this.#options;
    const { signal } = this.#ending;
    const onLeft = () => this.#left.resolve();
    try {
      // Meanwhile the process before keeps the entries.
      if (this.#inherited) await Promise.race([this.#tookOver.promise, this.#stopped.promise]);
      if (this.#inherited) return;
      await control.keepRegistered({
        signal,
        serving: this.#servingBegan.signal,
        draining: this.#leaving.signal,
        handedOver: this.#handedOver.signal,
        onLeft,
      });
    } catch (error) {
      if (control.needsRegistering) this.#failed(error);
      else log.error("not registered", { error: messageOf(error) });
    } finally {
      onLeft();
    }
  }

  /** Accepts in place of the process before. */
  async #takeOver(inherited: Inheritance): Promise<void> {
    try {
      const state = await inherited.ready();
      if (state) await this.#parts?.plane.resume(resumedState(state, this.#options));
      await this.#parts?.plane.accept();
      const servers = inherited.sockets.filter(({ use }) => use === "server");
      await this.#openAdmin(servers);
      // Before the other process does not any more: a process that starts now must find one of them.
      this.#offer();
      await inherited.serving();
    } catch (error) {
      return this.#failed(error);
    }
    this.#inherited = undefined;
    this.#tookOver.resolve();
    this.#options.log.info("took over", { process: inherited.pid });
    this.#begin();
  }

  /** Another process accepts from now on: this one drains and ends. */
  #handOver(pid: number): void {
    const { log, notifier } = this.#options;
    log.info("handed over", { process: pid });
    this.#takenBy = pid;
    notifier.mainProcess(pid);
    this.#handedOver.abort();
    this.#options.leaveServers();
    this.stop({ grace: false });
  }

  async #socketsToOffer(): Promise<readonly OfferedSocket[]> {
    const listeners = await this.#parts?.plane.sockets() ?? [];
    return [
      ...listeners.map((socket) => ({ ...socket, use: "listener" as const })),
      ...this.#options.serverSockets().map((socket) => ({ ...socket, use: "server" as const })),
      ...this.#options.systemd.copies().map((socket) => ({ ...socket, use: "kept" as const })),
    ];
  }

  #failed(error: unknown): void {
    this.#options.log.error("cannot serve", { error: messageOf(error) });
    this.#exitCode = 1;
    this.stop({ grace: false });
  }

  /** Reads files again; one that cannot be read leaves the old state. Never rejects. */
  async reload(): Promise<Reloaded> {
    const { log, notifier } = this.#options;
    log.info("reloading files");
    if (!this.#parts || !this.#canReload) return { kind: "refused", reason: "nothing runs so far" };
    const { agent, source, plane } = this.#parts;
    notifier.reloading("reading files again");
    const faults: string[] = [];
    try {
      agent?.reloadFiles?.();
    } catch (error) {
      faults.push(messageOf(error));
      log.error("files for Consul not reloaded; the old ones stay", { error: messageOf(error) });
    }
    // Plugins that were refused for another reason than their file are tried again, too.
    plane.rollout.setDue();
    const isRead = await source.reload();
    await this.#applying;
    await plane.rollout.retryDue();
    const refused = [...isRead ? [] : source.refused, ...this.refused];
    faults.push(...refused.map(({ what, reason }) => `${what}: ${reason}`));
    if (!isRead && faults.length === 0) faults.push("files could not be read");
    if (faults.length === 0) log.info("files reloaded");
    notifier.ready("files read again");
    if (faults.length > 0) return { kind: "refused", reason: faults.join("; ") };
    return { kind: "reloaded", snapshotVersion: this.snapshot?.version ?? 0 };
  }

  async #drain({ plane }: Serving): Promise<void> {
    const { clock, log, notifier, grace, stopTimeoutMs } = this.#options;
    const beganMs = clock.monotonic();
    const handedOver = this.#handedOver.signal.aborted;
    // For supervisors and for Consul the service goes on.
    if (!handedOver) {
      notifier.stopping("draining");
      this.#leaving.abort();
    }
    // The new process has just begun: both accept for a moment.
    if (handedOver) await this.#waitMs(TOGETHER_MS);
    const isPatient = grace !== undefined && !handedOver && await this.#grace(grace);
    if (!isPatient && !handedOver) await this.#settle();
    this.#draining = true;
    // A grace period is the time of open connections, too.
    const leftMs = isPatient ? 0 : Math.max(0, beganMs + stopTimeoutMs - clock.monotonic());
    const connections = (await plane.listeners()).flat()
      .reduce((sum, listener) => sum + listener.connections, 0);
    log.info("stopping", { connections, drain_timeout_ms: Math.round(leftMs) });
    // Their clients wait for the next process.
    const isLeft = !handedOver &&
      await this.#options.systemd.leave(() => this.#socketsToOffer());
    const drained = plane.drain(leftMs, { handedOver: handedOver || isLeft });
    await Promise.race([drained, this.#hurried.promise]);
  }

  /** False: the period was cut short, and the ordinary end follows. */
  async #grace({ ms, drainInbound }: ShutdownGrace): Promise<boolean> {
    const { log } = this.#options;
    log.info("grace period begins", { ms, drain_inbound: drainInbound });
    if (drainInbound) this.drainListeners("inbound");
    const isOver = this.#waitMs(ms).then(() => true);
    return await Promise.race([isOver, this.#graceOver.promise.then(() => false)]);
  }

  /** Serves callers that have not heard from Consul yet that the proxy leaves. */
  async #settle(): Promise<void> {
    const { log, settleMs: ms } = this.#options;
    const isCalled = this.#parts?.agent !== undefined && this.snapshot !== undefined &&
      Object.keys({ ...this.snapshot.inbound, ...this.snapshot.edges }).length > 0;
    if (!isCalled || this.#draining || this.#exitCode !== 0 || ms === 0) return;
    this.#settling = true;
    log.info("settling", { ms });
    // Consul may not answer: the wait is bounded.
    await Promise.race([this.#left.promise, this.#waitMs(ms)]);
    await this.#waitMs(ms);
  }

  /** Ends early after {@link hurry}. */
  async #waitMs(ms: number): Promise<void> {
    const over = new AbortController();
    await Promise.race([
      sleep(this.#options.clock, ms, { signal: over.signal }),
      this.#hurried.promise,
    ]);
    over.abort();
  }

  async #end({ plane, source, agent, registered }: Serving): Promise<void> {
    this.#ending.abort();
    this.#options.handover?.close();
    this.#inherited?.close();
    // A worker starts the next process; nothing else is left to close.
    if (!this.#handedOver.signal.aborted) plane.close();
    // The proxy's own registration is removed before the agent's connections are closed.
    await Promise.race([Promise.all([source.close(), registered]), this.#hurried.promise]);
    await Promise.race([agent?.leave?.(), this.#hurried.promise]);
    agent?.close();
    await this.#closeAdmin();
    this.#options.log.info("stopped");
  }

  async #openAdmin(inherited?: readonly ListeningSocket[]): Promise<void> {
    const { systemd, openAdmin } = this.#options;
    await (this.#admin ??= openAdmin(systemd.socketsFor("server", inherited)));
  }

  async #closeAdmin(): Promise<void> {
    await (await this.#admin)?.close();
  }

  #reportReadiness(reasons: readonly string[]): void {
    const { log, notifier } = this.#options;
    if (reasons.length > 0) {
      log.error("not ready any more", { reasons: reasons.join("; ") });
      return notifier.status(`not ready: ${reasons.join("; ")}`);
    }
    const service = this.snapshot?.service;
    const serving = `serving ${service ?? ""}`;
    if (this.#wasReady) {
      log.info("ready again");
      return notifier.status(serving);
    }
    this.#wasReady = true;
    if (this.#inherited) return void this.#takeOver(this.#inherited);
    this.#begin();
    this.#offer();
  }

  /** The proxy is ready for the first time, and serves. */
  #begin(): void {
    const { log, notifier, onFirstReady, serverSockets, systemd } = this.#options;
    const service = this.snapshot?.service;
    this.#servingBegan.abort();
    onFirstReady();
    if (this.#parts) systemd.accept(this.#parts.plane);
    void systemd.nameUnused(this.#parts?.plane, serverSockets);
    log.info("ready", { proxy: this.#parts?.proxyId, service });
    notifier.ready(`serving ${service ?? ""}`);
  }

  /** From now on the next process can take the sockets. */
  #offer(): void {
    this.#options.handover?.offer({
      sockets: () => this.#socketsToOffer(),
      state: async () => this.#parts && await stateToHand(this.#parts.plane, this.#options.clock),
      onTaken: (pid) => this.#handOver(pid),
    });
  }
}
