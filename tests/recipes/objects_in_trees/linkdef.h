#ifdef __CLING__
#pragma link C++ class Top+;
#pragma link C++ class LeftOfTop+;
#pragma link C++ class RightOfTop+;
#pragma link C++ class Diamond+;
#pragma link C++ enum Small;
#pragma link C++ enum Wide;
#pragma link C++ struct Box<double>::Inside+;
#pragma link C++ struct Box<int>::Inside+;
#pragma link C++ class std::vector<Box<double>::Inside>+;
#pragma link C++ class std::vector<Box<int>::Inside>+;
#pragma link C++ class Box<double>+;
#pragma link C++ class Box<int>+;
#pragma link C++ class Track+;
#pragma link C++ class Vertex+;
#pragma link C++ class Mixed+;
#pragma link C++ class std::vector<std::vector<bool>>+;
#pragma link C++ class std::vector<std::vector<Both>>+;
#pragma link C++ class std::vector<Diamond>+;
#pragma link C++ class std::vector<TObject *>+;
#pragma link C++ class std::map<int, std::vector<Both>>+;
#if VERSION == 2
#pragma link C++ class Added+;
#endif
#pragma link C++ class Grown+;
#pragma link C++ struct Plain+;
#pragma link C++ class std::vector<Grown>+;
#pragma link C++ class std::vector<Plain>+;
#pragma link C++ class std::map<int, Grown>+;
#pragma link C++ class Grower+;
#pragma link C++ function write_trees;
#pragma link C++ function write_versions;
#endif
