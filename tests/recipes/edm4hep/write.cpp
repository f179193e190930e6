// Writes events with collections of EDM4hep; `generated` collects what the file holds, as JSON.
#include "edm4hep.h"
#include <TFile.h>
#include <TRandom3.h>
#include <TTree.h>
#include <string>

std::string write_events(const std::string &path, int events) {
  TFile file(path.c_str(), "recreate");
  TTree tree("events", "events");
  TRandom3 random(3);
  std::vector<edm4hep::MCParticleData> particles;
  std::vector<edm4hep::ReconstructedParticleData> reconstructed;
  std::vector<edm4hep::EventHeaderData> header;
  std::vector<podio::ObjectID> parents, daughters, clusters, tracks, constituents, vertices;
  std::vector<double> weights;
  tree.Branch("MCParticles", &particles);
  tree.Branch("_MCParticles_parents", &parents);
  tree.Branch("_MCParticles_daughters", &daughters);
  tree.Branch("ReconstructedParticles", &reconstructed);
  tree.Branch("_ReconstructedParticles_clusters", &clusters);
  tree.Branch("_ReconstructedParticles_tracks", &tracks);
  tree.Branch("_ReconstructedParticles_particles", &constituents);
  tree.Branch("_ReconstructedParticles_decayVertex", &vertices);
  tree.Branch("EventHeader", &header);
  tree.Branch("_EventHeader_weights", &weights);
  std::string generated = "[";
  for (int event = 0; event < events; event++) {
    particles.clear(), reconstructed.clear(), header.clear(), parents.clear(), daughters.clear();
    clusters.clear(), tracks.clear(), vertices.clear(), weights.clear();
    generated += event ? ", {\"PDG\": [" : "{\"PDG\": [";
    const std::uint32_t count = random.Integer(5);
    for (std::uint32_t i = 0; i < count; i++) {
      edm4hep::MCParticleData one{};
      one.PDG = int(random.Integer(30)), one.charge = -1, one.mass = random.Rndm();
      one.momentum = {random.Gaus(), random.Gaus(), random.Gaus()};
      one.vertex = {random.Gaus(), 1, 2}, one.endpoint = {1, 2, random.Gaus()};
      one.parents_begin = one.daughters_begin = i, one.parents_end = one.daughters_end = i + 1;
      particles.push_back(one), parents.push_back({i ? int(i) - 1 : 0, 7}), daughters.push_back({int(i), 7});
      generated += (i ? ", " : "") + std::to_string(one.PDG);
    }
    generated += "], \"energies\": [";
    const std::uint32_t more = random.Integer(4);
    for (std::uint32_t i = 0; i < more; i++) {
      edm4hep::ReconstructedParticleData one{};
      one.PDG = 11, one.energy = float(int(100 * random.Rndm()));
      one.momentum = {1, 2, float(random.Gaus())}, one.referencePoint = {1, float(random.Gaus()), 3};
      one.clusters_begin = one.tracks_begin = i, one.clusters_end = one.tracks_end = i + 1;
      reconstructed.push_back(one), clusters.push_back({int(i), 1}), tracks.push_back({int(i), 2});
      vertices.push_back({int(i), 3});
      generated += (i ? ", " : "") + std::to_string(int(one.energy));
    }
    generated += "]}";
    header.push_back({event, 1, 0, random.Rndm(), 0, 1}), weights.push_back(random.Rndm());
    tree.Fill();
  }
  file.Write();
  return generated + "]";
}
