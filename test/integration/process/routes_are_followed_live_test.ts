import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { routes } from "../../stories/routes.ts";

routes(DevMesh);
