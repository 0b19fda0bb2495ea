#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "convoy/jinja/checks.h"
#include "convoy/jinja/filters.h"
#include "convoy/jinja/operators.h"
#include "convoy/jinja/value.h"

namespace convoy::jinja {

struct Node;
using NodePtr = std::unique_ptr<Node>;
using Block = std::vector<NodePtr>;

enum class CompareOperator {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};

/// Statement or expression of a template. Each kind says which fields it uses.
struct Node {
  enum class Kind {
    // Statements
    kOutput,       ///< parts
    kIf,           ///< parts are the conditions; blocks, one more where there is an else
    kFor,          ///< parts: target, what is gone through, condition or null; blocks: body, else
    kSet,          ///< parts: target, value
    kSetBlock,     ///< parts: target; subject: filters around kCaptured, or null; blocks
    kMacro,        ///< name, parameters, parts are the last parameters' defaults; blocks
    kCallBlock,    ///< fields of kMacro; subject is the call
    kFilterBlock,  ///< subject: filters around kCaptured; blocks
    kWith,         ///< parts: targets and values in turns; blocks
    kGeneration,   ///< blocks
    kBreak,
    kContinue,
    // Expressions
    kConstant,   ///< value
    kName,       ///< name
    kOfSpace,    ///< name.value, a target
    kList,       ///< parts
    kTuple,      ///< parts
    kDict,       ///< parts: keys and values in turns
    kAttribute,  ///< subject.name
    kItem,       ///< subject[parts]
    kStretch,    ///< subject[parts], three that may be null
    kCall,       ///< subject, parts, named, star, star_star
    kFilter,     ///< as kCall; name
    kTest,       ///< as kCall; name
    kNot,        ///< subject
    kNegative,   ///< subject
    kPositive,   ///< subject
    kAnd,        ///< parts
    kOr,         ///< parts
    kChoice,     ///< parts: condition, value, other or null
    kCompare,    ///< parts, comparisons between them
    kJoin,       ///< parts: the operator ~
    kBinary,     ///< parts, op
    kCaptured,   ///< text of the block around
  };
  Kind kind = Kind::kOutput;
  int line = 1;
  int height = 1;  ///< levels of nodes below and here
  std::string name;
  Value value;
  NodePtr subject;
  std::vector<NodePtr> parts;
  std::vector<Block> blocks;
  std::vector<std::pair<std::string, NodePtr>> named;
  NodePtr star, star_star;
  std::vector<std::string> parameters;
  std::vector<CompareOperator> comparisons;
  Operator op = Operator::kAdd;
  FilterFunction filter = nullptr;
  CheckFunction check = nullptr;
  bool recursive = false;  ///< of kFor
  bool uses_caller = false, uses_varargs = false,
       uses_kwargs = false;  ///< of kMacro and kCallBlock
};

}  // namespace convoy::jinja
