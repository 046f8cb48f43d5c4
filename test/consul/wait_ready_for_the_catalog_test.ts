import { SERVERS } from "../kit/cluster.ts";
import { CONSUL } from "../kit/consul.ts";
import { catalogOutOfSight, waitForCatalog } from "../stories/wait_for_catalog.ts";

for (const agents of [CONSUL, SERVERS]) waitForCatalog(agents);
catalogOutOfSight(CONSUL);
