/**
 * SPIFFE ids as Consul forms them for services:
 * `spiffe://<trust domain>[/ap/<partition>]/ns/<namespace>/dc/<datacenter>/svc/<service>`.
 *
 * @module
 */

/** Who a verified leaf belongs to. The trust domain is lower case. */
export interface ServiceId {
  readonly trustDomain: string;
  readonly partition: string;
  readonly namespace: string;
  readonly datacenter: string;
  readonly service: string;
}
