/** Messages of workload.proto, made by scripts/protocols.ts: change that file, not this one. @module */

/** For `Root.fromJSON` of protobuf.js. */
export const DESCRIPTOR: string =
  '{"nested":{"workload":{"nested":{"X509SVIDResponse":{"fields":{"svids":{"rule":"repeated","type":"X509SVID","id":1},"crl":{"rule":"repeated","type":"bytes","id":2},"federated_bundles":{"keyType":"string","type":"bytes","id":3}}},"X509SVID":{"fields":{"spiffe_id":{"type":"string","id":1},"x509_svid":{"type":"bytes","id":2},"x509_svid_key":{"type":"bytes","id":3},"bundle":{"type":"bytes","id":4},"hint":{"type":"string","id":5}}},"X509BundlesResponse":{"fields":{"crl":{"rule":"repeated","type":"bytes","id":1},"bundles":{"keyType":"string","type":"bytes","id":2}}}}}}}';
